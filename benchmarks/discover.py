"""The time of whole calls of `newfound discover`: on vectors, and from photographs to the page."""

import time
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from PIL import Image

from benchmarks.embed import QUALITY, finish, pictures, started
from benchmarks.record import DiscoverTime

KNOWN, NOVEL = 27, 10
LABELLED = 0.8
"""The share of a known class's images that is labelled."""
SPREAD = 0.1
"""Standard deviation of the class means, with noise of 1 in every feature: the classes overlap."""
SIZE = (1155, 866)
"""Width and height of a photograph: a million pixels."""
TINTS = np.array([[1.0, 0.7, 0.7], [0.7, 1.0, 0.7], [0.7, 0.7, 1.0], [1.0, 1.0, 0.6], [0.6, 1.0, 1.0]])
"""Colours of the classes of photographs; the last is novel."""


def discover_times(size: tuple[int, int, int]) -> Iterator[list[DiscoverTime]]:
    """Time each call in a process of its own; yields all times so far.

    `size` is the number of vectors of each class, of their features, and of photographs.
    """
    found: list[DiscoverTime] = []
    with TemporaryDirectory() as folder:
        place, number = Path(folder), (KNOWN + NOVEL) * size[0]
        _write_vectors(place, *size[:2])
        calls = {
            "novel pile, number given": ("novel", "--num-novel", NOVEL),
            "mixed pile, number given": ("mixed", "--num-novel", NOVEL),
            "mixed pile, number estimated": ("mixed",),
        }
        for name, (pile, *options) in calls.items():
            data = ("--embeddings", place / "all.npy", "--labelled", place / f"{pile}.csv", "--pile", pile)
            seconds = _seconds("discover", *data, *options, "--out", place / "runs" / name)
            call = f"{number:,} vectors of {size[1]:,}, {name}"
            found = [*found, DiscoverTime(call=call, images=number, seconds=seconds)]
            yield found
        _write_photographs(place, size[2])
        images = ("--labelled", place / "known", "--unlabelled", place / "pile", "encoder=lite0-random")
        seconds = _seconds("discover", *images, "--out", place / "runs" / "photographs")
        assert (place / "runs" / "photographs" / "report.html").exists()
        call = f"{size[2]:,} photographs of {SIZE[0]} x {SIZE[1]} pixels with lite0, to the page"
        yield [*found, DiscoverTime(call=call, images=size[2], seconds=seconds)]


def _seconds(*words: object) -> float:
    start = time.perf_counter()
    finish(started(*map(str, words)))
    return time.perf_counter() - start


def _write_vectors(place: Path, per_class: int, features: int) -> None:
    """Write all.npy and the labels of two piles: novel vectors alone, and with a fifth of the known ones."""
    random = np.random.default_rng(0)
    classes = np.repeat(np.arange(KNOWN + NOVEL), per_class)
    means = SPREAD * random.standard_normal((KNOWN + NOVEL, features))
    np.save(
        place / "all.npy", (means[classes] + random.standard_normal((len(classes), features))).astype("f2")
    )
    (place / "all.txt").write_text("\n".join(f"{row}.png" for row in range(len(classes))))
    for name, share in {"novel": 1.0, "mixed": LABELLED}.items():
        labels = [
            f"{row}.png,class-{label:02}"
            for row, label in enumerate(classes)
            if label < KNOWN and row % per_class < share * per_class
        ]
        (place / f"{name}.csv").write_text("\n".join(["image,label", *labels]))


def _write_photographs(place: Path, number: int) -> None:
    """Write JPEG files, all different: half to known/CLASS, half to pile."""
    random = np.random.default_rng(0)
    plain = pictures(min(number, 16), SIZE)
    for row in range(number):
        label = row // 2 % len(TINTS)
        known = row % 2 == 0 and label < len(TINTS) - 1
        folder = place / (f"known/class-{label}" if known else "pile")
        folder.mkdir(parents=True, exist_ok=True)
        shifted = np.roll(plain[row % len(plain)], random.integers(0, 800, 2), (0, 1))
        file = BytesIO()
        Image.fromarray((shifted * TINTS[label]).astype(np.uint8)).save(file, "JPEG", quality=QUALITY)
        (folder / f"{row:06}.jpg").write_bytes(file.getvalue())
