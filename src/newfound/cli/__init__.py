"""The command line: each verb parses, calls one function below, prints."""

import sys
from typing import TYPE_CHECKING, cast

from newfound.cli.interrupt import INTERRUPTED, begin_imports, end_imports

if TYPE_CHECKING:
    import typer


RESUMING = ("discover", "pretrain", "estimate")
"""The verbs that have --resume."""
TRAINING = (*RESUMING, "compare", "calibrate", "reproduce", "trust")
GO_ON = "; a run that reached a checkpoint goes on from there: repeat the call"


def main() -> None:
    """Run `newfound`; exit codes: 0, 1 for a failed run, 2 for bad usage, 130 for Ctrl-C."""
    begin_imports()
    arguments = sys.argv[1:] or ["--help"]
    try:
        code = _call(arguments)
    except KeyboardInterrupt:
        code = _interrupted(arguments)
    finally:
        end_imports()
    sys.exit(code)


def _call(arguments: list[str]) -> int | None:
    """Run a command; every mistake that a person can mend becomes one line and an exit code."""
    import typer

    from newfound.cli.app import app
    from newfound.core.errors import NewfoundError, WriteError, ran_out_of_memory

    # The base of typer's own usage errors, which some versions take from click and others bring along.
    bad_call = cast("type[typer.BadParameter]", typer.BadParameter.__base__)
    for each in arguments:
        if not each or (each.startswith("--") and each.find("=") == len(each) - 1):
            what = each[:-1] or "an argument"
            return _fail(f"{what} must not be empty; got ''; perhaps a variable of the shell is not set", 2)
    try:
        code: int | None = app(arguments, standalone_mode=False)
        return _interrupted(arguments) if code == INTERRUPTED else code  # some versions turn Ctrl-C into that
    except typer.Abort:  # and others into this
        return _interrupted(arguments)
    except WriteError as error:
        return _fail(f"{error}{_resuming(arguments)}", error.exit_code)
    except NewfoundError as error:
        return _fail(str(error), error.exit_code)
    except bad_call as error:
        return _fail(_sentence(error), 2)
    except OSError as error:
        where = error.filename or "a file"
        return _fail(
            f"{where} must be readable and writable; got: {error.strerror or error}; mend that, or choose "
            "another place",
            1,
        )
    except (MemoryError, RuntimeError) as error:
        if not ran_out_of_memory(error):
            raise
        return _fail(
            "the work must fit into memory; it does not; free some, or try a smaller batch_size, hidden or "
            "--size where the command takes them",
            1,
        )


def _interrupted(arguments: list[str]) -> int:
    """Say what Ctrl-C ended where no checkpoint was waited for."""
    trains = any(verb in TRAINING for verb in arguments[:1])
    return _fail("stopped by Ctrl-C" + (GO_ON + _resuming(arguments)) * trains, INTERRUPTED)


def _resuming(arguments: list[str]) -> str:
    """How a call goes on with a run when it is repeated, where it does not do so by itself."""
    return ", with --resume" * any(verb in RESUMING for verb in arguments[:1])


def _sentence(error: "typer.BadParameter") -> str:
    """What typer says, in the form of our own errors."""
    said = error.format_message().rstrip(".")
    command = error.ctx.command_path if error.ctx else "newfound"
    return f"{said[0].lower()}{said[1:]}; {_hint(error)}{command} --help lists what it takes"


def _hint(error: "typer.BadParameter") -> str:
    """How to write what was given as an option, in case it is a name or, where such are taken, a setting."""
    option, own = getattr(error, "option_name", "") or "", error.ctx.command.params if error.ctx else []
    if option and not option.startswith("--"):
        return "write -- before names that begin with -; "
    known = {name for each in own for name in (each.name, *each.opts)}
    if "settings" not in known or option in known or not option:
        return ""
    return f"if it is a setting, write {option[2:].replace('-', '_')}=VALUE; "


def _fail(message: str, code: int) -> int:
    print(f"error: {message}", file=sys.stderr)
    return code
