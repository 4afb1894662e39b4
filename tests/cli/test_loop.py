"""A mixed folder of images through everything a person does with it, the review in a real browser."""

import csv
from collections import Counter
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from PIL import Image, ImageDraw

import newfound
from examples.shapes import draw
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
KNOWN, NEW = ("circle", "square", "triangle", "hexagon"), ("star", "heart", "moon")


@pytest.fixture
def photographs() -> None:
    """Ten labelled images of each known class; a pile with six of each, twelve of each new one, a page."""
    random = np.random.default_rng(0)
    for shape in KNOWN:
        for row in range(10):
            draw(shape, random, Path("known", shape, f"{row}.jpg"))
    for shape in (*KNOWN, *NEW):
        for _ in range(12 if shape in NEW else 6):
            draw(shape, random, Path("pile", f"{random.integers(10**6)}-{shape}.jpg"))
    page = Image.new("RGB", (320, 240), "white")
    for y in range(5, 230, 15):
        ImageDraw.Draw(page).text((5, y), "Nobody has labelled anything that looks like this page.", "black")
    page.save(Path("pile", "1-page.png"))
    for row in range(3):
        draw("moon", random, Path("new", f"{row}-moon.jpg"))


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
    star, heart, moon = (class_of(shape, found) for shape in NEW)
    assert len({star, heart, moon}) == 3
    with Browser(tmp_path / "profile") as browser:
        reviewed(browser, first, (star, "charm"), (heart, "heart"), ("heart", "charm"))

    review = Review(first)
    ids = {name: key for key, name in review.names.items()}
    assert set(ids) == {*KNOWN, "charm", moon, "unsorted"}
    works("export", first.path, "first.csv")
    exported = table(Path("first.csv"))
    accepted = [row for row in exported.values() if row["kind"] == "known"]
    assert accepted
    assert {row["accepted"] for row in accepted} == {"yes"}
    charms = [row for row in exported.values() if true_class(row["image"]) in ("star", "heart")]
    assert np.mean([row["class"] == "charm" for row in charms]) > 0.9
    unsorted = {name for name, row in exported.items() if row["class"] == "unsorted"}
    before = {name for name, row in table(first.assignments).items() if row["class"] == "unsorted"}
    assert "1-page.png" in before < unsorted
    assert len(unsorted - before) == 1

    told = works("discover", "--from", first.path, "--num-novel", "1", "--out", second.path)
    assert "mbedding images" not in told
    follower = Review(second)
    rest = {Path(image).name for image in follower.assignments.images}
    assert rest == {name for name, row in exported.items() if row["class"] in (moon, "unsorted")}
    assert follower.found == {**{ids[name]: name for name in KNOWN}, ids["charm"]: "charm", 7: "novel-1"}
    assert class_of("moon", follower) == "novel-1"

    data = newfound.from_run(first.path, "runs/python", num_novel=1)
    same = newfound.discover(data=data, out="runs/python", verbose=False)
    assert (same.cluster_sizes, same.classes) == (follower.results.cluster_sizes, follower.results.classes)

    works("classes", second.path, "rename", "novel-1=moon")
    works("export", second.path, "sorted")
    assert len(list(Path("sorted", "moon").iterdir())) >= 10
    labelled = next(name for name, row in exported.items() if row["class"] == "charm")
    Path("pile", labelled).rename(Path("new", "moved.jpg"))
    works("predict", second.path, "new")
    predicted = table(second.path / "predictions.csv")
    assert [predicted[f"{row}-moon.jpg"]["class"] for row in range(3)] == ["moon"] * 3
    assert predicted["moved.jpg"]["class"] == "charm"
