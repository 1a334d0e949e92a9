"""A request that can be pasted into a shell: signed with openssl, sent with curl."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from bursar.http.openapi_examples import FILE

Node = Mapping[str, Any]

_VARIABLES = {"timestamp": "TIMESTAMP", "method": "METHOD", "path": "TARGET", "key": "KEY", "account": "ACCOUNT"}
_DIGEST = "openssl dgst -sha256 -hmac \"$SECRET_KEY\" |\n  sed 's/.* //'"


def shell_snippet(
    method: str, path: str, operation: Node, parameters: Sequence[Node], server: str, media: str, body: Any
) -> str:
    target = path
    for parameter in parameters:
        if parameter["in"] == "path":
            target = target.replace(f"{{{parameter['name']}}}", str(_value(parameter)))
    is_operator = "operatorKey" in operation["security"][0]
    lines = ["SECRET_KEY='…'  # the operator key" if is_operator else "SECRET_KEY='sk_live_…'"]
    headers = ["Authorization: Bearer $SECRET_KEY"]
    if method in ("GET", "HEAD"):
        needed = [f"{entry['name']}={_value(entry)}" for entry in parameters if _must_ask(entry)]
        return "\n".join([*lines, *_curl(method, server + target + _query(needed), headers, [])])
    lines.append('KEY="$(openssl rand -hex 16)"')
    signed = operation.get("x-signed-message")
    content, lines_of_body = _content(media, body)
    if signed:
        lines += _places(signed, method, target)
    lines += lines_of_body
    if signed:
        lines.append(_signature(signed, from_file=media == "multipart/form-data"))
    if media:
        headers.append(
            "Content-Type: multipart/form-data; boundary=bursar" if "multi" in media else f"Content-Type: {media}"
        )
    headers.append("Idempotency-Key: $KEY")
    if signed:
        headers += ["X-Service-Timestamp: $TIMESTAMP", "X-Service-Signature: $SIGNATURE"]
        headers += ["Service-Account: $ACCOUNT"] if "{account}" in signed else []
    return "\n".join([*lines, "", *_curl(method, server + target, headers, content)])


def _value(parameter: Node) -> Any:
    schema = parameter["schema"]
    given = [*schema.get("examples", ()), *schema.get("enum", ()), "example"]
    return given[0]


def _must_ask(parameter: Node) -> bool:
    return bool(parameter["in"] == "query" and parameter["required"])


def _query(pairs: Sequence[str]) -> str:
    return f"?{'&'.join(pairs)}" if pairs else ""


def _places(signed: str, method: str, target: str) -> list[str]:
    """The variables of the message, besides key and body."""
    lines = ['TIMESTAMP="$(date +%s)"']
    if "{method}" in signed:
        lines.append(f"METHOD={method}")
    if "{path}" in signed:
        lines.append(f"TARGET={shlex.quote(target)}")
    if "{account}" in signed:
        lines.append("ACCOUNT=''  # a connected account, or empty")
    return lines


def _content(media: str, body: Any) -> tuple[list[str], list[str]]:
    """curl's options for the body, and the lines that make it."""
    if not media:
        return [], ["BODY=''"]
    if media == "multipart/form-data":
        return ["--data-binary @body.bin"], _multipart(body)
    return ['--data-binary "$BODY"'], [f"BODY={shlex.quote(json.dumps(body, indent=2, ensure_ascii=False))}"]


def _multipart(body: Mapping[str, Any]) -> list[str]:
    """The form as a file, since the signature covers its exact bytes."""
    lines = ["FILE='document.pdf'", "{"]
    for name, value in body.items():
        disposition = f'Content-Disposition: form-data; name="{name}"'
        if value in (FILE, [FILE]):
            lines.append(f"""  printf '%s\\r\\n' --bursar '{disposition}; filename="document.pdf"' ''""")
            lines.append("""  cat "$FILE"; printf '\\r\\n'""")
        else:
            text = value if isinstance(value, str) else json.dumps(value)
            lines.append(f"  printf '%s\\r\\n' --bursar '{disposition}' '' {shlex.quote(text)}")
    return [*lines, "  printf '%s\\r\\n' --bursar--", "} > body.bin"]


def _signature(signed: str, *, from_file: bool) -> str:
    """Signs the message that the document names, with a variable for each of its parts."""
    message = signed.removesuffix("{body}") if from_file else signed
    names = re.findall(r"\{(\w+)\}", message)
    form = re.sub(r"\{\w+\}", "%s", message).replace("\n", "\\n")
    values = " ".join(f'"${_VARIABLES.get(name, name.upper())}"' for name in names)
    printed = f"printf '{form}' {values}"
    if from_file:
        printed = f"{{ {printed}; cat body.bin; }}"
    return f'SIGNATURE="$({printed} |\n  {_DIGEST})"'


def _curl(method: str, url: str, headers: Sequence[str], content: Sequence[str]) -> list[str]:
    verb = "" if method == "GET" else f" -X {method}"
    options = [*(f'-H "{header}"' for header in headers), *content]
    return [" \\\n  ".join([f"curl -sS{verb}", shlex.quote(url), *options])]
