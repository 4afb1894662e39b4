"""Every Python block and every command of README.md and docs/ runs, page by page and in order."""

import re
import shlex
import shutil
import tarfile
from dataclasses import replace
from pathlib import Path
from runpy import run_path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import make_blobs

from examples import shapes
from newfound.core.registry import DATASETS, ENCODERS, EXPORTERS, METHODS, Entry, recipe_for
from newfound.nn.encoders import missing
from newfound.review.server import Server
from tests.cli.calls import newfound, works
from tests.tiny import NARROW, STAGE, TINY
from tools.readme import pages

ROOT = Path(__file__).parents[1]
NEEDS = re.compile(r"--data-dir|hf:|datasets:|devices=|s3://|--engine ray")
"""In a command that needs a download, a cluster or several GPUs."""
STEP = re.compile(
    r"^```python\n(?P<block>.*?)^```$|^```text\n(?P<printed>.*?)^```$|^ {4}python \S+/(?P<script>\w+\.py)$"
    r"|^ {4}(?:NEWFOUND_PLUGINS=(?P<plugin>\S+) )?newfound (?P<call>.+?)(?: +#.*)?$",
    re.MULTILINE | re.DOTALL,
)
LONG = {
    "adding-a-method.md",
    "encoders.md",
    "own-images.md",
    "reproduce.md",
    "scale.md",
    "tutorial.md",
}
"""Pages that train many methods, or a large network, or on many images."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        bool(missing("lite0")), reason=f"the weights of lite0 are missing: {missing('lite0')}"
    ),
]


def steps(page: str) -> list[re.Match[str]]:
    """What can be run here."""
    text = next(path for path in pages(ROOT) if path.name == page).read_text(encoding="utf-8")
    return [each for each in STEP.finditer(text) if not NEEDS.search(each["call"] or "")]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images, vectors of some of them, and a finished run."""
    folder = tmp_path_factory.mktemp("home")
    shapes.main(folder, labelled=8, known=2, new=9, later=1)
    shutil.copytree(folder / "new-images", folder / "more-images")
    works("embed", folder / "new-images", "--encoder", "lite0", "--out", folder / "new-feats")
    shutil.copytree(folder / "new-feats", folder / "more-feats")
    (folder / "tars").mkdir()
    with tarfile.open(folder / "tars" / "a.tar", "w") as tar:
        for name in ("known", "pile"):
            tar.add(folder / name, name)
    for number, image in enumerate(sorted((folder / "pile").iterdir())[:10]):
        with tarfile.open(folder / f"pile-{number:03}.tar", "w") as tar:
            tar.add(image, image.name)
    known = [path.relative_to(folder) for path in folder.glob("known/*/*")]
    rows = [f"tars/a.tar/{path.as_posix()},{path.parent.name}" for path in known]
    (folder / "known.csv").write_text("\n".join(["path,label", *rows]))
    images = ("--labelled", folder / "known", "--unlabelled", folder / "pile")
    works("discover", *images, "--num-novel", "4", "--out", folder / "runs" / "mine")
    return folder


@pytest.fixture
def names(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names that the examples use. The current folder is a copy of `home`; methods train for a moment."""
    shutil.copytree(home, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(Server, "serve_forever", _interrupted)
    for registry in (METHODS, ENCODERS, DATASETS, EXPORTERS):
        registry.load()
        monkeypatch.setattr(registry, "items", dict(registry.items))
    METHODS.items.pop("balance", None)
    X, classes = make_blobs(120, centers=6, n_features=16, random_state=0)
    y = np.array(["cat", "dog", "eel", "fox", "-1", "-1"])[classes]
    images = np.random.default_rng(0).integers(256, size=(75, 12, 12, 3), dtype=np.uint8)
    labels = np.repeat([0, 1, 2, -1, -1], 15)
    return {"images": images, "labels": labels, "X": X, "y": y, "X_new": X[:5], "__name__": "page"}


def _interrupted(server: Server) -> None:
    """A person looks at the page and presses Ctrl-C."""
    raise KeyboardInterrupt


def hastened(entry: Entry) -> Entry:
    """A method that trains for a moment, on digits and on own images."""
    known = recipe_for(entry.name, "digits").flat()
    tiny = {key: value for key, value in (TINY | NARROW).items() if key in known}
    tiny |= {"epochs": min(2, entry.method.schedules["discover"].epochs)}
    for stage in entry.method.schedules.keys() - {"discover"}:
        tiny |= {f"{stage}.{key}": value for key, value in STAGE.items()}
    return replace(
        entry, published={}, ours={**entry.ours, "digits": tiny, "own": {**tiny, "encoder": "small"}}
    )


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(path.name, marks=pytest.mark.extra if path.name in LONG else ())
        for path in pages(ROOT)
        if any(step["call"] or step["block"] for step in steps(path.name))
    ],
)
def test_a_page_runs(page: str, names: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    if any("--out runs/mine" in (step["call"] or "").partition(" --from")[0] for step in steps(page)):
        shutil.rmtree("runs/mine")  # the page makes it
    out = ""
    for step in steps(page):
        if step["block"]:
            exec(compile(step["block"], page, "exec"), names)
        elif step["script"]:
            for folder in ("known", "pile", "new-images"):
                shutil.rmtree(folder)
            monkeypatch.setattr("sys.argv", [step["script"]])
            run_path(str(ROOT / "examples" / step["script"]), run_name="__main__")
        elif step["printed"]:
            assert words(step["printed"]) <= words(out)
        else:
            if step["plugin"]:
                run_path(str(ROOT / "examples" / f"{step['plugin']}.py"))
            METHODS.items.update({name: hastened(entry) for name, entry in METHODS.items.items()})
            done = newfound(*shlex.split(step["call"]))
            assert done.code == 0, f"{step['call']}: {done.err}"
            out = done.out


def words(text: str) -> set[tuple[str, ...]]:
    """Its lines, however wide their columns are."""
    return {tuple(line.split()) for line in text.splitlines()}
