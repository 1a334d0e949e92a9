"""The `bursar` command. Nothing heavy is imported until a command needs it, so that `bursar --help` is instant."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status: 0, 2 for a wrong call, 1 for all else. One line says why."""
    import typer

    from bursar.cli.commands import command

    chosen = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    try:
        status = command()(args=chosen, prog_name="bursar", standalone_mode=False)
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        message = error.format_message().strip()
        if context is None or type(error).__name__ != "NoArgsIsHelpError":  # which has printed the help already
            _complain(f"{message.rstrip('.')}; see `{context.command_path if context else 'bursar'} --help`")
        return error.exit_code
    except typer.Abort:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # whoever read us has gone; that is no error
        return 0
    except Exception as error:
        from bursar.cli.errors import one_line

        _complain(one_line(error))
        return 1
    return status if isinstance(status, int) else 0


def _complain(line: str) -> None:
    sys.stderr.write(f"bursar: {line}\n")
