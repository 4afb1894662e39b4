"""What a file of Python says: a digest that comments, docstrings and layout leave as it is."""

import ast
from hashlib import blake2b
from pathlib import Path


def digest_of_code(path: Path, ignoring: str) -> str:
    """Changes when the code does, but not with what is given to the decorator called `ignoring`."""
    tree = ast.parse(path.read_bytes())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            node.body = [line for line in node.body if not _is_text(line)]
        if isinstance(node, ast.ClassDef):
            node.decorator_list = [each for each in node.decorator_list if not _calls(each, ignoring)]
    return blake2b(ast.unparse(tree).encode(), digest_size=8).hexdigest()


def _is_text(line: ast.stmt) -> bool:
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)


def _calls(decorator: ast.expr, name: str) -> bool:
    return isinstance(decorator, ast.Call) and getattr(decorator.func, "id", "") == name
