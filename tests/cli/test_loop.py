"""A mixed folder of images through everything a person does with it, the review in a real browser."""

import csv
from collections import Counter
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from PIL import Image, ImageDraw

import newfound
from newfound.nn.encoders import missing
from newfound.review.review import Review
from newfound.review.server import Live, Server
from newfound.run.folder import Folder
from newfound.run.trained import Pictures
from tests.browser import CHROMIUM, Browser
from tests.cli.calls import works

pytestmark = [
    pytest.mark.extra,
    pytest.mark.skipif(
        bool(missing("lite0")), reason=f"the weights of lite0 are missing: {missing('lite0')}"
    ),
    pytest.mark.skipif(
        CHROMIUM is None, reason="no browser: neither chromium nor google-chrome is installed"
    ),
]
KNOWN, NEW = ("circle", "square", "triangle", "hexagon"), ("line", "cross", "ring")


@pytest.fixture
def photographs() -> None:
    """Ten labelled images of each known class; a pile with six of each, twelve of each new one, a page."""
    random = np.random.default_rng(0)
    for shape in KNOWN:
        for row in range(10):
            photograph(Path("known", shape, f"{row}.jpg"), shape, random)
    for shape in (*KNOWN, *NEW):
        for _ in range(12 if shape in NEW else 6):
            photograph(Path("pile", f"{random.integers(10**6)}-{shape}.jpg"), shape, random)
    page = Image.new("RGB", (320, 240), "white")
    for y in range(5, 230, 15):
        ImageDraw.Draw(page).text((5, y), "Nobody has labelled anything that looks like this page.", "black")
    page.save(Path("pile", "1-page.png"))
    for row in range(3):
        photograph(Path("new", f"{row}-ring.jpg"), "ring", random)


def photograph(path: Path, shape: str, random: np.random.Generator) -> None:
    """A shape somewhere on a background."""
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = random.integers(0, 90, (6, 8, 3)).astype(np.uint8)
    image = Image.fromarray(noise).resize((320, 240), Image.Resampling.BICUBIC)
    pen, (x, y) = ImageDraw.Draw(image), random.integers(100, 140, 2).tolist()
    sides, box = {"square": 4, "triangle": 3, "hexagon": 6}, (x - 60, y - 60, x + 60, y + 60)
    if shape in sides:
        pen.regular_polygon((x, y, 70), sides[shape], fill="gold")
    elif shape in ("circle", "ring"):
        pen.ellipse(box, fill="gold" if shape == "circle" else None, outline="gold", width=14)
    else:
        pen.line(box, fill="gold", width=18)
        if shape == "cross":
            pen.line((x - 60, y + 60, x + 60, y - 60), fill="gold", width=18)
    image.save(path)


def true_class(image: str) -> str:
    return Path(image).stem.split("-")[1]


def class_of(shape: str, review: Review) -> str:
    """The class that most images of a shape are in."""
    rows = [row for row, image in enumerate(review.assignments.images) if true_class(image) == shape]
    return review.names[Counter(review.ids[rows].tolist()).most_common(1)[0][0]]


def table(path: Path) -> dict[str, dict[str, str]]:
    """The rows of a CSV by the names of their images."""
    with path.open(newline="", encoding="utf-8") as file:
        return {Path(row["image"]).name: row for row in csv.DictReader(file)}


def reviewed(browser: Browser, run: Folder, *names: tuple[str, str]) -> None:
    """Accept the known classes, dismiss an image, and type these names into the cards of these classes."""
    with Server(Live(run, Pictures.load(run))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        browser.open(server.address)
        edits = browser.value("data.seen")

        def edited() -> None:
            nonlocal edits
            edits += 1
            browser.wait(f"data.seen === {edits} && !busy")

        browser.click("[data-act=accept]")
        edited()
        browser.click(".card .picture")
        browser.click("[data-act=move]")
        browser.enter("#choose input", "unsorted")
        edited()
        for own, name in names:
            browser.enter(f'input[aria-label="Name of {own}"]', name)
            edited()
        server.shutdown()


@pytest.mark.usefixtures("photographs")
def test_from_a_mixed_folder_to_the_next_run(tmp_path: Path) -> None:
    first, second = (Folder(tmp_path / "runs" / name) for name in ("first", "second"))
    images = ("--labelled", "known", "--unlabelled", "pile", "--pile", "mixed")
    works("discover", *images, "--num-novel", "3", "--out", first.path)
    found = Review(first)
    line, cross, ring = (class_of(shape, found) for shape in NEW)
    assert len({line, cross, ring}) == 3
    with Browser(tmp_path / "profile") as browser:
        reviewed(browser, first, (line, "stroke"), (cross, "cross"), ("cross", "stroke"))

    review = Review(first)
    ids = {name: key for key, name in review.names.items()}
    assert set(ids) == {*KNOWN, "stroke", ring, "unsorted"}
    works("export", first.path, "first.csv")
    exported = table(Path("first.csv"))
    accepted = [row for row in exported.values() if row["kind"] == "known"]
    assert accepted
    assert {row["accepted"] for row in accepted} == {"yes"}
    strokes = [row for row in exported.values() if true_class(row["image"]) in ("line", "cross")]
    assert np.mean([row["class"] == "stroke" for row in strokes]) > 0.9
    unsorted = {name for name, row in exported.items() if row["class"] == "unsorted"}
    before = {name for name, row in table(first.assignments).items() if row["class"] == "unsorted"}
    assert "1-page.png" in before < unsorted
    assert len(unsorted - before) == 1

    told = works("discover", "--from", first.path, "--num-novel", "1", "--out", second.path)
    assert "mbedding images" not in told
    follower = Review(second)
    rest = {Path(image).name for image in follower.assignments.images}
    assert rest == {name for name, row in exported.items() if row["class"] in (ring, "unsorted")}
    assert follower.found == {**{ids[name]: name for name in KNOWN}, ids["stroke"]: "stroke", 7: "novel-1"}
    assert class_of("ring", follower) == "novel-1"

    data = newfound.from_run(first.path, "runs/python", num_novel=1)
    same = newfound.discover(data=data, out="runs/python", verbose=False)
    assert (same.cluster_sizes, same.classes) == (follower.results.cluster_sizes, follower.results.classes)

    works("classes", second.path, "rename", "novel-1=ring")
    works("export", second.path, "sorted")
    assert len(list(Path("sorted", "ring").iterdir())) >= 10
    labelled = next(name for name, row in exported.items() if row["class"] == "stroke")
    Path("pile", labelled).rename(Path("new", "moved.jpg"))
    works("predict", second.path, "new")
    predicted = table(second.path / "predictions.csv")
    assert [predicted[f"{row}-ring.jpg"]["class"] for row in range(3)] == ["ring"] * 3
    assert predicted["moved.jpg"]["class"] == "stroke"
