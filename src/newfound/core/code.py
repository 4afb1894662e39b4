"""What modules of Python say: a digest that comments, docstrings and layout leave as it is."""

import ast
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from hashlib import blake2b
from pathlib import Path

PARTS = ("newfound.losses.", "newfound.nn.", "newfound.pseudo.")
"""Where the mathematics of a learner lies besides its own file."""
CONTRACTS, FOREIGN = "newfound.core.", ("torch", "abc", "builtins")
"""Modules of classes that a learner inherits from and that are no code of its own."""
REGISTER = "register"
"""The decorator whose values are settings, which are compared apart."""


def digest_of_code(modules: Iterable[str]) -> str:
    """Changes when their code does, or that of the parts they import; empty where one has no file."""
    said: dict[str, str] = {}
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        path = Path(getattr(sys.modules.get(name), "__file__", None) or "")
        if not path.is_file():  # in a notebook there is none, in a zip none that could be read
            return ""
        said[name], imported = _read(path)
        waiting += [part for part in imported if part in sys.modules and part not in said]
    return blake2b("\n".join(said[name] for name in sorted(said)).encode(), digest_size=8).hexdigest()


def modules_of(learner: type) -> list[str]:
    """Where its class and those that it inherits from are written, but for the contracts of newfound.core."""
    own = (each.__module__ for each in learner.__mro__)
    return [name for name in own if name.split(".")[0] not in FOREIGN and not name.startswith(CONTRACTS)]


def forget() -> None:
    """Read files anew: a module was loaded again."""
    _read.cache_clear()


@cache
def _read(path: Path) -> tuple[str, tuple[str, ...]]:
    """What a file says and which parts it imports; read once, for what runs is what was loaded."""
    tree = ast.parse(path.read_bytes())
    return _without_text(tree), tuple(_imported(tree))


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names = (node.module, *(f"{node.module}.{each.name}" for each in node.names))
            yield from (name for name in names if name and name.startswith(PARTS))


def _without_text(tree: ast.Module) -> str:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            node.body = [line for line in node.body if not _is_text(line)]
        if isinstance(node, ast.ClassDef):
            node.decorator_list = [each for each in node.decorator_list if not _registers(each)]
    return ast.unparse(tree)


def _is_text(line: ast.stmt) -> bool:
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)


def _registers(decorator: ast.expr) -> bool:
    return isinstance(decorator, ast.Call) and getattr(decorator.func, "id", "") == REGISTER
