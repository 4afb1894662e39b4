"""Cached weights belong to a definition: whoever changes one decides whether `cache_version` increases.

`python -m tests.core.test_cache_version` rewrites the table.
"""

import ast
import json
import sys
from collections.abc import Callable, Iterator
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest

from newfound.core.registry import ENCODERS, METHODS, STAGES

TABLE = Path(__file__).with_name("cache_versions.json")
PARTS = ("newfound.losses.", "newfound.nn.", "newfound.pseudo.", "newfound.stages.")
"""Where the mathematics of a learner is besides its own file."""
DECORATORS = ("register", "register_stage", "register_encoder")
"""Their arguments are settings, which the key of cached weights has anyway."""


def definitions() -> dict[str, Any]:
    """Kind and name → class of everything with weights."""
    found: dict[str, Any] = {f"method {name}": METHODS.get(name).method for name in METHODS.names()}
    found |= {f"stage {name}": STAGES.get(name) for name in STAGES.names()}
    found |= {f"encoder {name}": getattr(ENCODERS.get(name), "func", None) for name in ENCODERS.names()}
    return {key: each for key, each in found.items() if each.__module__.startswith("newfound.")}


def digest(defined: type) -> str:
    """Changes with the code of a class and of the parts it imports; not with text, layout or settings."""
    modules: dict[str, str] = {}
    waiting = [each.__module__ for each in defined.__mro__ if each.__module__.startswith("newfound.")]
    while waiting:
        name = waiting.pop()
        if name not in modules and not name.startswith("newfound.core."):
            modules[name], imported = code_of(Path(str(sys.modules[name].__file__)))
            waiting += [part for part in imported if part in sys.modules]
    return blake2b("\n".join(modules[name] for name in sorted(modules)).encode(), digest_size=8).hexdigest()


@cache
def code_of(path: Path) -> tuple[str, tuple[str, ...]]:
    """The code of a file, and the parts that it imports."""
    tree = ast.parse(path.read_bytes())
    parts = tuple(imported_parts(tree))
    return ast.unparse(OnlyCode().visit(tree)), parts


def imported_parts(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names = (node.module, *(f"{node.module}.{each.name}" for each in node.names))
            yield from (name for name in names if name and name.startswith(PARTS))


class OnlyCode(ast.NodeTransformer):
    """Drops imports, docstrings, meanings of settings, messages of errors and what registers a class."""

    def visit_Import(self, node: ast.Import) -> None:
        return None

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        return None

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return None if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        return ast.Pass()

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if getattr(node.func, "id", "") == "setting":
            node.args = node.args[:1]
        return self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.decorator_list = [
            each
            for each in node.decorator_list
            if not (isinstance(each, ast.Call) and getattr(each.func, "id", "") in DECORATORS)
        ]
        self.generic_visit(node)
        node.body = node.body or [ast.Pass()]
        return node


def table() -> dict[str, list[Any]]:
    return {key: [each.cache_version, digest(each)] for key, each in sorted(definitions().items())}


@pytest.mark.parametrize("key", sorted(definitions()))
def test_a_changed_definition_has_a_decision_about_its_version(key: str) -> None:
    defined, recorded = definitions()[key], json.loads(TABLE.read_text()).get(key)
    assert [defined.cache_version, digest(defined)] == recorded, (
        f"the code of {key} has changed. If the same training now gives other weights, increase its "
        "cache_version. Then run python -m tests.core.test_cache_version to update the table."
    )


SOURCE = '''"""A method."""
from newfound.losses import pairs

@register("mine", published={"cifar10": {"rate": 1}})
@dataclass(frozen=True)
class Mine(Method):
    """It learns."""

    rate: int = setting(1, "how fast")

    def loss(self):
        """The objective."""
        if self.rate < 0:
            raise UsageError(f"{self.rate} is negative.")
        return self.rate * 2  # twice
'''
TEXT = [
    ("  # twice", ""),
    ("It learns.", "It."),
    ("how fast", "speed"),
    ('"rate": 1', '"rate": 2'),
    ("is neg", "neg"),
]
CODE = [("self.rate * 2", "self.rate * 3"), ("setting(1", "setting(2"), ("frozen=True", "frozen=False")]


@pytest.mark.parametrize(
    ("change", "same"), [*((change, True) for change in TEXT), *((change, False) for change in CODE)]
)
def test_only_code_counts(change: tuple[str, str], same: bool, tmp_path: Path) -> None:
    read: Callable[[str], str] = lambda text: code_of(written(tmp_path, text))[0]  # noqa: E731
    assert SOURCE.count(change[0]) == 1
    assert (read(SOURCE) == read(SOURCE.replace(*change))) is same


def test_imported_parts_count(tmp_path: Path) -> None:
    assert "newfound.losses.pairs" in code_of(written(tmp_path, SOURCE))[1]


def written(folder: Path, text: str) -> Path:
    path = folder / f"{blake2b(text.encode()).hexdigest()[:9]}.py"
    path.write_text(text)
    return path


if __name__ == "__main__":
    TABLE.write_text(
        "{\n" + ",\n".join(f'"{key}": {json.dumps(row)}' for key, row in table().items()) + "\n}\n"
    )
