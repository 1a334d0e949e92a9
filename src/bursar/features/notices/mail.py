"""How notices leave: SMTP for e-mail, an interface for text messages. These calls block; the sweep has threads."""

from __future__ import annotations

import smtplib
import ssl
from dataclasses import dataclass
from email.message import EmailMessage
from typing import Protocol
from urllib.parse import unquote, urlsplit

import structlog

from bursar.settings import Settings

log = structlog.get_logger()

TIMEOUT_S = 15.0


class Refused(Exception):
    """The recipient is refused for good; trying again is no use."""


@dataclass(frozen=True, slots=True)
class Mail:
    recipient: str
    subject: str
    text: str
    html: str
    message_id: str


class MailSender(Protocol):
    def send(self, mail: Mail) -> None: ...


class SmsSender(Protocol):
    def send(self, number: str, text: str) -> None: ...


class LoggedSms:
    """Stands where no provider of text messages is configured: says that there was one to send, not what."""

    def send(self, number: str, text: str) -> None:
        log.info("sms.not_sent", number_ends=number[-2:], characters=len(text))


@dataclass(frozen=True, slots=True)
class Smtp:
    """One connection per message: notices are few, and a kept connection is one more thing to lose."""

    url: str
    sender: str

    def send(self, mail: Mail) -> None:
        parts = urlsplit(self.url)
        host, secure = parts.hostname or "localhost", parts.scheme == "smtps"
        context = ssl.create_default_context()
        try:
            with self._connect(host, parts.port, context, secure=secure) as smtp:
                if not secure and smtp.has_extn("starttls"):
                    smtp.starttls(context=context)
                    smtp.ehlo()
                elif not secure and parts.username:
                    raise smtplib.SMTPException("the server offers no STARTTLS; a password is not sent in the clear")
                if parts.username:
                    smtp.login(unquote(parts.username), unquote(parts.password or ""))
                smtp.send_message(self._message(mail))
        except smtplib.SMTPRecipientsRefused as refusal:
            code = next(iter(refusal.recipients.values()))[0]
            if 500 <= code < 600:
                raise Refused(f"the recipient was refused with {code}") from None
            raise

    @staticmethod
    def _connect(host: str, port: int | None, context: ssl.SSLContext, *, secure: bool) -> smtplib.SMTP:
        if secure:
            return smtplib.SMTP_SSL(host, port or 465, timeout=TIMEOUT_S, context=context)
        smtp = smtplib.SMTP(host, port or 587, timeout=TIMEOUT_S)
        smtp.ehlo()
        return smtp

    def _message(self, mail: Mail) -> EmailMessage:
        message = EmailMessage()
        message["From"] = self.sender
        message["To"] = mail.recipient
        message["Subject"] = mail.subject
        message["Message-ID"] = mail.message_id
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(mail.text)
        message.add_alternative(mail.html, subtype="html")
        return message


def mail_sender(settings: Settings) -> MailSender | None:
    url = settings.smtp_url.get_secret_value()
    return Smtp(url, settings.mail_from) if url else None
