"""The verbs of `newfound`: one function each, whose module is imported when it is called.

So the list of them comes at once: most need torch, which takes seconds to import.
"""

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from newfound.cli.interrupt import end_imports

VERBS = {
    "Find new classes": {
        "demo": "demo",
        "estimate": "estimate",
        "discover": "train",
        "report": "report",
        "trust": "trust",
        "predict": "use",
    },
    "Make them yours": {
        "review": "review",
        "classes": "edit",
        "rename": "edit",
        "merge": "edit",
        "split": "edit",
        "move": "edit",
        "undo": "edit",
        "export": "edit",
        "relocate": "use",
    },
    "Study methods": {
        "data": "look",
        "methods": "look",
        "pretrain": "train",
        "compare": "compare",
        "calibrate": "calibrate",
        "evaluate": "use",
        "figures": "use",
        "reproduce": "reproduce",
        "tables": "tables",
        "bench": "bench",
    },
}
"""What a person is after → verb → the module that has a function of that name."""
MODULES = {verb: module for verbs in VERBS.values() for verb, module in verbs.items()}


class Verbs(TyperGroup):
    """Knows what each verb is about, and imports the one that is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, known, rest = super().resolve_command(ctx, args)
        return name, known and command(str(name)), rest


def command(name: str) -> Any:
    """A verb with its arguments and options."""
    module, alone = import_module(f"newfound.cli.{MODULES[name]}"), typer.Typer(add_completion=False)
    end_imports()
    alone.command(name, epilog=getattr(module, "EPILOG", None))(getattr(module, name))
    return get_command(alone)


def _about(name: str) -> str:
    """The docstring of a verb, read and not imported."""
    source = Path(__file__).with_name(f"{MODULES[name]}.py").read_text(encoding="utf-8")
    functions = (node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef))
    return next(ast.get_docstring(function) or "" for function in functions if function.name == name)


app = typer.Typer(
    name="newfound",
    cls=Verbs,
    help="Find the classes nobody has named in a pile of unlabelled images.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for panel, verbs in VERBS.items():
    for name in verbs:
        app.command(name, help=_about(name), rich_help_panel=panel)(lambda: None)
