"""A person's own photographs, embedded with lite0: the default from beginning to end."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw

import newfound
from newfound.nn.encoders import missing
from newfound.run.folder import Folder
from tests.cli.calls import newfound as call
from tests.cli.calls import refused, works

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        bool(missing("lite0")), reason=f"the weights of lite0 are missing: {missing('lite0')}"
    ),
]
EACH = 5
SHAPES = ("circle", "square", "triangle", "hexagon", "line", "cross")
"""The last two are novel."""


@pytest.fixture
def photographs(tmp_path: Path) -> tuple[str, ...]:
    """A shape on a background, 5 photographs of each."""
    random = np.random.default_rng(0)
    for number, shape in enumerate(SHAPES):
        folder = tmp_path / "known" / shape if number < 4 else tmp_path / "pile"
        folder.mkdir(parents=True, exist_ok=True)
        for row in range(EACH):
            noise = random.integers(0, 90, (6, 8, 3)).astype(np.uint8)
            image = Image.fromarray(noise).resize((320, 240), Image.Resampling.BICUBIC)
            draw(ImageDraw.Draw(image), shape, *random.integers(100, 140, 2).tolist())
            image.save(folder / f"{number * 31 % 7}{row}.jpg")
    return "--labelled", "known", "--unlabelled", "pile", "--num-novel", "2"


def draw(on: ImageDraw.ImageDraw, shape: str, x: int, y: int) -> None:
    sides = {"square": 4, "triangle": 3, "hexagon": 6}
    if shape == "circle":
        on.ellipse((x - 60, y - 60, x + 60, y + 60), fill="gold")
    elif shape in sides:
        on.regular_polygon((x, y, 70), sides[shape], fill="gold")
    else:
        on.line((x - 60, y - 60, x + 60, y + 60), fill="gold", width=18)
    if shape == "cross":
        on.line((x - 60, y + 60, x + 60, y - 60), fill="gold", width=18)


def test_photographs_from_beginning_to_end(photographs: tuple[str, ...], tmp_path: Path) -> None:
    out = works("discover", *photographs, "--out", "runs/one")
    lines = out.splitlines()
    assert lines[0].startswith("encoder: ")
    assert lines[1] == "method: centroids, the default for vectors"
    assert "20 labelled images of 4 known classes, 10 unlabelled images of known classes and 2 novel" in out
    page = Path("runs/one/report.html").read_text(encoding="utf-8")
    assert page.count("data:image/") >= 10

    rows = [line.split(",")[:2] for line in Path("runs/one/assignments.csv").read_text().splitlines()]
    works("predict", "runs/one", "pile")
    predicted = Path("runs/one/predictions.csv").read_text()
    assert sorted(rows[1:]) == sorted(line.split(",")[:2] for line in predicted.splitlines()[1:])
    refused(2, ("predict", "runs/one", "pile"), "already exists. Add --overwrite")
    works("embed", "pile", "--encoder", "lite0", "--out", "feats")
    works("predict", "runs/one", "feats", "--overwrite")
    assert Path("runs/one/predictions.csv").read_text() == predicted

    kmeans = works("discover", "kmeans", *photographs, "--out", "runs/two")
    assert "mbedding" not in kmeans
    assert "reusing" not in kmeans
    (shared,) = Path("runs/pretrained").glob("embedded-*")
    assert len(list(shared.iterdir())) == 1

    works("discover", *photographs, "--out", "runs/one", "--resume")
    refused(2, ("discover", *photographs, "--out", "runs/one", "--resume", "encoder=small"), "encoder, ")
    trusted = works("trust", "runs/one")
    assert "k-means on the same vectors gives " in trusted
    works("report", "runs/one", "--figures", "drawn")
    assert "k-means on the same vectors" in Path("runs/one/report.html").read_text(encoding="utf-8")

    data = newfound.from_folders("known", "pile", 2)
    same = newfound.discover(data=data, out="runs/python", verbose=False)
    assert same.cluster_sizes == Folder(tmp_path / "runs/one").read_results().cluster_sizes
    assert same.embedded_by == Folder(tmp_path / "runs/one").request().source.frozen


def test_mistakes_are_found_before_images_are_read(photographs: tuple[str, ...]) -> None:
    for path in Path("pile").iterdir():
        path.write_text("no image")
    for words, texts in (
        (("encoder=lite1",), ("Unknown encoder 'lite1'",)),
        (
            ("encoder=hf:nobody/nothing",),
            ("not in the local Hugging Face cache", "hf download nobody/nothing"),
        ),
        (("encoder=lite0", "--size", "64"), ("size cannot be combined with a frozen encoder",)),
        (("encoder=lite0", "--out", "known/run"), ("lies inside the image folder",)),
    ):
        refused(2, ("discover", *photographs, *words), *texts)
    assert call("discover", *photographs, "encoder=lite0").code == 1
