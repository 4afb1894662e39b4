"""The layer rule: a layer imports only downward, siblings never import each other."""

import ast
from pathlib import Path

import pytest

import newfound

ROOT = Path(newfound.__file__).parent
LAYERS = [
    ["cli", "estimator"],
    ["api"],
    ["report", "bench"],
    ["review"],
    ["experiment"],
    ["methods", "engine", "estimate"],
    ["stages"],
    ["losses", "pseudo", "nn", "data", "metrics"],
    ["core"],
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
OUTSIDE = {"__init__", "__main__"}


def layer_of(path: Path) -> str:
    """The package of ours that a file lies in, or its own name."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


FILES = sorted(path for path in ROOT.rglob("*.py") if layer_of(path) not in OUTSIDE)


def imported(path: Path) -> set[str]:
    """The packages of ours that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        parts = [name.split(".") for name in names]
        found |= {part[1] for part in parts if part[0] == "newfound" and len(part) > 1 and part[1] in RANK}
    return found


def test_every_package_and_file_has_a_layer() -> None:
    assert {layer_of(path) for path in FILES} == set(RANK)


def test_the_readme_shows_the_layers() -> None:
    order = " > ".join(", ".join(layer) for layer in LAYERS)
    assert f"\n    {order}\n" in (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_imports_only_downward(path: Path) -> None:
    own = layer_of(path)
    wrong = {name for name in imported(path) if name != own and RANK[name] <= RANK[own]}
    assert not wrong


def test_no_method_imports_another() -> None:
    methods = ROOT / "methods"
    for path in methods.glob("[!_]*.py"):
        text = path.read_text(encoding="utf-8")
        assert "newfound.methods" not in text, path.name


def test_only_the_evaluator_and_the_experiment_know_the_truth() -> None:
    """Training code never holds the hidden labels: the name does not even occur there."""
    training = [*(ROOT / "methods").rglob("*.py"), *(ROOT / "stages").rglob("*.py")]
    training += (ROOT / "estimate").rglob("*.py")
    training += [ROOT / "engine" / name for name in ("trainer.py", "step.py", "bank.py")]
    training += [
        ROOT / "data" / "loader.py",
        *(ROOT / "losses").rglob("*.py"),
        *(ROOT / "pseudo").rglob("*.py"),
    ]
    for path in training:
        text = path.read_text(encoding="utf-8")
        assert "Truth" not in text, path.name
        assert "Dataset" not in text, path.name
