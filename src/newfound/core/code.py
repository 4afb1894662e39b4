"""What modules of Python say: a digest that comments, docstrings and layout leave as it is."""

import ast
import sys
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path

PARTS = ("newfound.losses.", "newfound.nn.", "newfound.pseudo.")
"""Where the mathematics of a learner lies besides its own file."""
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
        tree = ast.parse(path.read_bytes())
        said[name] = _without_text(tree)
        waiting += [part for part in _imported(tree) if part not in said]
    return blake2b("\n".join(said[name] for name in sorted(said)).encode(), digest_size=8).hexdigest()


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names = (node.module, *(f"{node.module}.{each.name}" for each in node.names))
            yield from (name for name in names if name and name.startswith(PARTS) and name in sys.modules)


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
