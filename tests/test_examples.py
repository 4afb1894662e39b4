"""The scripts and notebooks in examples/ run."""

from pathlib import Path
from runpy import run_path

import pytest

from newfound.nn.encoders import missing

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.slow
def test_the_pipeline_finds_the_digits() -> None:
    assert run_path(str(EXAMPLES / "sklearn_pipeline.py"))["main"]() > 0.85


@pytest.mark.extra
@pytest.mark.skipif(bool(missing("lite0")), reason=f"the weights of lite0 are missing: {missing('lite0')}")
@pytest.mark.parametrize("name", ["own_images", "embeddings"])
def test_a_notebook_runs(name: str, tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat", reason="the extra notebooks is not installed")
    nbclient = pytest.importorskip("nbclient", reason="the extra notebooks is not installed")
    notebook = nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)
    (tmp_path / "shapes.py").write_bytes((EXAMPLES / "shapes.py").read_bytes())
    nbclient.NotebookClient(notebook, resources={"metadata": {"path": str(tmp_path)}}).execute()
