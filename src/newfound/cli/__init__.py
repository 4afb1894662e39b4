"""The command line: each verb parses, calls one function below, prints."""

import sys
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    import typer


def main() -> None:
    """Run `newfound`; exit codes: 0, 1 for a failed or interrupted run, 2 for bad usage."""
    import typer

    from newfound.cli.app import app
    from newfound.core.errors import NewfoundError

    # The base of typer's own usage errors, which some versions take from click and others bring along.
    bad_call = cast("type[typer.BadParameter]", typer.BadParameter.__base__)
    try:
        code = app(sys.argv[1:] or ["--help"], standalone_mode=False)
    except NewfoundError as error:
        code = _fail(str(error), error.exit_code)
    except bad_call as error:
        code = _fail(_sentence(error), 2)
    except OSError as error:
        where = error.filename or "a file"
        code = _fail(f"{where} must be readable and writable; got: {error.strerror or error}", 1)
    except (MemoryError, RuntimeError) as error:
        if not _out_of_memory(error):
            raise
        code = _fail(
            "the run must fit into memory; it does not; try a smaller batch_size, hidden or --size", 1
        )
    except typer.Abort:
        code = _fail("stopped by Ctrl-C; runs that reached a checkpoint go on with --resume", 1)
    sys.exit(code)


def _sentence(error: "typer.BadParameter") -> str:
    """What typer says, in the form of our own errors."""
    said = error.format_message().rstrip(".")
    command = error.ctx.command_path if error.ctx else "newfound"
    return f"{said[0].lower()}{said[1:]}; {command} --help lists what it takes"


def _out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, on the host or on a GPU."""
    return isinstance(error, MemoryError) or "memory" in str(error).lower()


def _fail(message: str, code: int) -> int:
    print(f"error: {message}", file=sys.stderr)
    return code
