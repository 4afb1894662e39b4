"""The verbs of `newfound`: one function each, whose module is imported when it is called.

So `newfound --help` answers at once: most verbs need torch, which takes seconds to import.
"""

import ast
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from typer.core import TyperGroup
from typer.main import get_command

from newfound import __version__
from newfound.cli.console import RESUMABLE, log_to_console, worded
from newfound.cli.signals import INTERRUPTED, end_imports
from newfound.core.calls import as_ours
from newfound.core.errors import one_line

VERBS = {
    "Use": {
        "demo": "demo",
        "discover": "discover",
        "estimate": "discover",
        "plan": "discover",
        "embed": "discover",
        "predict": "runs",
        "export": "classes",
        "data": "lists",
        "encoders": "lists",
    },
    "Look and correct": {
        "review": "runs",
        "classes": "classes",
        "report": "runs",
        "trust": "runs",
        "relocate": "runs",
    },
    "Research": {
        "methods": "lists",
        "compare": "research",
        "calibrate": "research",
        "reproduce": "research",
        "tables": "research",
    },
}
"""Panel of the help → verb → the module with a function of that name."""
TRAINING = (*RESUMABLE, "compare", "calibrate", "reproduce", "trust", "embed")
"""Verbs that can be interrupted and continued."""
MODULES = {verb: module for verbs in VERBS.values() for verb, module in verbs.items()}


class Verbs(TyperGroup):
    """Lists every verb, and imports only the one that is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, known, rest = super().resolve_command(ctx, args)
        return name, known and command(str(name)), rest


def command(name: str) -> Any:
    """The command of a verb, with its arguments and options."""
    module, alone = import_module(f"newfound.cli.{MODULES[name]}"), typer.Typer(add_completion=False)
    end_imports()
    alone.command(name, epilog=getattr(module, "EPILOGS", {}).get(name))(getattr(module, name))
    return get_command(alone)


def _about(name: str) -> str:
    """The docstring of a verb, read without importing its module."""
    source = Path(__file__).with_name(f"{MODULES[name]}.py").read_text(encoding="utf-8")
    functions = (node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef))
    return next(ast.get_docstring(function) or "" for function in functions if function.name == name)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"newfound {__version__}")
        raise typer.Exit


def _newfound(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Novel class discovery: find the classes that nobody has labelled among your images."""


app = typer.Typer(
    name="newfound",
    cls=Verbs,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.callback()(_newfound)
for panel, verbs in VERBS.items():
    for name in verbs:
        app.command(name, help=_about(name), rich_help_panel=panel)(lambda: None)


def run(arguments: list[str]) -> int | None:
    """Run a command and return its exit code. An error becomes one line on stderr."""
    verb = arguments[0]
    # The base class of usage errors: some versions of typer take it from click, others have their own.
    bad_call = cast("type[typer.BadParameter]", typer.BadParameter.__base__)
    for each in arguments:
        if not each or (each.startswith("--") and each.find("=") == len(each) - 1):
            return _fail(f"{each[:-1] or 'An argument'} is empty. Perhaps a shell variable is not set.", 2)
        if each.encode(errors="ignore").decode() != each:
            return _fail(f"The argument {each!r} is not valid UTF-8.", 2)
    log_to_console()
    try:
        code: int | None = app(arguments, prog_name="newfound", standalone_mode=False)
        # Some versions of typer return this code after Ctrl-C instead of raising.
        return _interrupted(verb) if code == INTERRUPTED else code
    except (typer.Abort, KeyboardInterrupt):
        return _interrupted(verb)
    except bad_call as error:
        return _fail(_usage(error), 2)
    except Exception as error:
        ours = as_ours(error)
        return _fail(worded(ours, verb), ours.exit_code)


def _interrupted(verb: str) -> int:
    """Report Ctrl-C where nothing waited for a checkpoint."""
    how = f" Repeat the command{' with --resume' if verb in RESUMABLE else ''} to continue."
    print(f"Stopped by Ctrl-C.{how if verb in TRAINING else ''}", file=sys.stderr)
    return INTERRUPTED


def _usage(error: typer.BadParameter) -> str:
    """The message of a usage error, with a hint."""
    command = error.ctx.command_path if error.ctx else "newfound"
    message, what = error.format_message().rstrip("."), "options" if " " in command else "commands"
    message += "" if message.endswith("?") else "."
    return f"{message} {_usage_hint(error)}`{command} --help` lists the {what}."


def _usage_hint(error: typer.BadParameter) -> str:
    """How to write a setting, or a name with a leading dash, that was taken for an option."""
    option, own = getattr(error, "option_name", "") or "", error.ctx.command.params if error.ctx else []
    if option and not option.startswith("--"):
        return "Write -- before names that begin with -. "
    known = {name for each in own for name in (each.name, *each.opts)}
    if "settings" not in known or option in known or not option:
        return ""
    return f"Settings are written as {option[2:].replace('-', '_')}=VALUE. "


def _fail(message: str, code: int) -> int:
    print(f"error: {one_line(message)}", file=sys.stderr)
    return code
