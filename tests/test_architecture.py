"""The rules of the house: layers, where words belong, and what may not be imported."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import newfound

ROOT = Path(newfound.__file__).parent
LAYERS = [
    ["cli", "estimator"],
    ["api", "lab"],
    ["review"],
    ["report"],
    ["run"],
    ["methods", "engine", "estimate"],
    ["stages"],
    ["losses", "pseudo", "nn", "data", "metrics"],
    ["core"],
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
EDGE = {"cli", "estimator", "api", "lab"}
"""Where results and errors are put into words."""
TRAINING = (
    *("methods", "stages", "losses", "pseudo", "nn", "estimate", "data/loader.py"),
    *("engine/trainer.py", "engine/step.py"),
)
"""What must never see the hidden labels."""
WITHOUT_TORCH = (
    *("core.errors", "core.files", "core.source", "core.settings", "core.registry", "metrics.report"),
    *("run.models", "run.folder", "run.pile", "review.review", "review.export"),
)
"""What verbs need that compute nothing."""


def layer_of(path: Path) -> str:
    """The package of ours that a file lies in, or its own name."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


TREES = {
    path: ast.parse(path.read_text(encoding="utf-8"))
    for path in sorted(ROOT.rglob("*.py"))
    if layer_of(path) not in ("__init__", "__main__")
}


def imported(path: Path) -> set[str]:
    """The full names that a file imports."""
    found = set()
    for node in ast.walk(TREES[path]):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def strings(tree: ast.Module) -> list[str]:
    """What the code says, docstrings apart."""
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    constants = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in docs)
    return [node.value for node in constants if isinstance(node.value, str)]


def files(folders: tuple[str, ...]) -> list[Path]:
    """The modules in these folders, or files."""
    return [path for path in TREES if any(path.is_relative_to(ROOT / folder) for folder in folders)]


def run_python(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_package_and_file_has_a_layer() -> None:
    assert {layer_of(path) for path in TREES} == set(RANK)


def test_the_documentation_shows_the_layers() -> None:
    order = " > ".join(", ".join(layer) for layer in LAYERS)
    page = Path(__file__).parents[1] / "docs" / "architecture.md"
    assert f"\n    {order}\n" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", TREES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_imports_only_downward(path: Path) -> None:
    own, parts = layer_of(path), [name.split(".") for name in imported(path)]
    layers = {part[1] for part in parts if part[0] == "newfound" and len(part) > 1}
    assert not {name for name in layers & set(RANK) if name != own and RANK[name] <= RANK[own]}


def test_no_method_imports_another() -> None:
    for path in (ROOT / "methods").glob("[!_]*.py"):
        names = {name for name in imported(path) if name.startswith("newfound.methods.")}
        assert all(name.startswith("newfound.methods._recipes.") for name in names), path.name


def test_training_code_does_not_know_the_truth() -> None:
    """It never holds the hidden labels: the names do not even occur there."""
    for path in files(TRAINING):
        assert not re.search("Truth|Dataset", path.read_text(encoding="utf-8")), path


def test_no_option_of_the_command_line_is_named_below_the_edge() -> None:
    for path, tree in TREES.items():
        if layer_of(path) not in EDGE:
            said = [each for each in strings(tree) if re.search(r"(^|[\s(\"'])--[a-z][a-z-]+", each)]
            assert not said, path


def test_one_file_uses_torch_distributed() -> None:
    for path, tree in TREES.items():
        if path == ROOT / "core" / "dist.py":
            continue
        assert not any(name.startswith("torch.distributed") for name in imported(path)), path
        assert "torch.distributed" not in ast.unparse(tree), path


@pytest.mark.slow
def test_every_module_imports_where_unix_modules_are_missing() -> None:
    """As on Windows; in one process of its own, since they are imported here by now."""
    modules = [".".join(path.relative_to(ROOT.parent).with_suffix("").parts) for path in TREES]
    run_python(
        "import sys, importlib\n"
        "sys.modules['fcntl'] = sys.modules['resource'] = None\n"
        f"for name in {modules!r}: importlib.import_module(name)"
    )


def test_verbs_that_compute_nothing_do_without_torch() -> None:
    run_python(
        "import sys, importlib\n"
        "sys.modules['torch'] = None\n"
        f"for name in {WITHOUT_TORCH!r}: importlib.import_module(f'newfound.{{name}}')"
    )
