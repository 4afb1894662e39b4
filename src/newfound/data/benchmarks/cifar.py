"""CIFAR10 and CIFAR100 from their official files, binary or Python; reading a pickle runs no code in it."""

import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch

from newfound.core.errors import DataError
from newfound.core.files import open_plain, read_bytes, reading
from newfound.core.registry import register_dataset
from newfound.data.augment import NORMALISATION
from newfound.data.benchmarks.family import Benchmark, Corpus, Family, Part, files_missing
from newfound.data.dataset import Look, Rows
from newfound.data.decode import Pixels
from newfound.data.images import ResidentImages

Name = Literal["cifar10", "cifar100"]
Where = Literal["train", "test"]
PIXELS = 3 * 32 * 32
HOME = "www.cs.toronto.edu/~kriz/cifar.html"
"""The website of the official archives."""

CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
CIFAR100 = tuple(Path(__file__).with_name("cifar100.txt").read_text(encoding="utf-8").split())
NAMES: dict[Name, tuple[str, ...]] = {"cifar10": CIFAR10, "cifar100": CIFAR100}


@register_dataset("cifar10")
def cifar10() -> Family:
    """The first five classes are known."""
    return _family("cifar10", Benchmark("cifar10", 5, CIFAR10[5:]))


@register_dataset("cifar100")
def cifar100() -> Family:
    """The last classes are novel; cifar100-80-10 leaves ten unused."""
    return _family(
        "cifar100",
        Benchmark("cifar100-20", 80, CIFAR100[80:]),
        Benchmark("cifar100-50", 50, CIFAR100[50:]),
        Benchmark("cifar100-80-10", 80, CIFAR100[90:], unused=CIFAR100[80:90]),
        classes=CIFAR100,
    )


def _family(name: Name, *benchmarks: Benchmark, classes: tuple[str, ...] = ()) -> Family:
    look = Look(32, "cifar", *NORMALISATION[name], stored=32)
    return Family(partial(_read, name), look, _archives(name), benchmarks, classes)


def _archives(name: Name) -> str:
    """The official archives, either of which will do."""
    return " or ".join(layout.archive for layout in LAYOUTS[name])


def _read(name: Name, data_dir: Path | None) -> Corpus:
    return Corpus(NAMES[name], read_cifar(name, data_dir, "train"), read_cifar(name, data_dir, "test"))


def read_cifar(name: Name, data_dir: Path | None, where: Where) -> Part:
    """The images of the official files in `data_dir`, in their order."""
    folder, layout = _find(name, data_dir)
    parts = []
    for path in (folder / f"{file}{layout.suffix}" for file in FILES[name][where]):
        with reading(path, f"an official {name} file, as {layout.archive} has it", DataError):
            pixels, labels = layout.read(path)
            if pixels.shape != (len(labels), PIXELS) or labels.min() < 0 or labels.max() >= len(NAMES[name]):
                raise ValueError(f"unexpected labels for {len(pixels)} images")
        parts.append((pixels, labels))
    pixels, labels = np.concatenate([each[0] for each in parts]), np.concatenate([each[1] for each in parts])
    names = [f"{name}/{where}/{row}" for row in range(len(labels))]
    return Part(labels, ResidentImages(torch.from_numpy(pixels).reshape(-1, 3, 32, 32), names))


def _find(name: Name, data_dir: Path | None) -> tuple[Path, "Layout"]:
    looked = []
    if data_dir is not None:
        for layout in LAYOUTS[name]:
            for folder in (data_dir / layout.folder, data_dir):
                looked.append(folder / f"{FILES[name]['train'][0]}{layout.suffix}")
                if looked[-1].is_file():
                    return folder, layout
    raise files_missing(name, f"{_archives(name)} from {HOME}", looked)


def _binary(path: Path, label_bytes: int) -> tuple[Pixels, Rows]:
    """Rows of `label_bytes` labels, of which the last counts, then 3072 pixels."""
    rows = np.frombuffer(read_bytes(path), np.uint8).reshape(-1, label_bytes + PIXELS)
    return rows[:, label_bytes:], rows[:, label_bytes - 1].astype(np.int64)


def _pickled(path: Path, key: bytes) -> tuple[Pixels, Rows]:
    """A dictionary of `data` (n, 3072) and the labels under `key`."""
    with open_plain(path) as file:
        batch = _InertUnpickler(file, encoding="bytes").load()
    _, shape, _, by_columns, content = batch[b"data"].state
    pixels = np.frombuffer(content, np.uint8).reshape(shape, order="F" if by_columns else "C")
    return pixels, np.array(batch[key], np.int64)


class _Inert:
    """Stands in for every object that a batch may contain: stores its state and does nothing."""

    def __init__(self, *_: Any) -> None: ...

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state


class _InertUnpickler(pickle.Unpickler):
    """Accepts only what an array of bytes is made of, and imports nothing that the file names."""

    def find_class(self, module: str, name: str) -> type[_Inert]:
        if module.partition(".")[0] == "numpy" and name in ("ndarray", "dtype", "_reconstruct"):
            return _Inert
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no CIFAR file needs")


class Layout(NamedTuple):
    """One official distribution."""

    archive: str
    folder: str
    suffix: str
    read: Callable[[Path], tuple[Pixels, Rows]]


FILES: dict[Name, dict[Where, list[str]]] = {
    "cifar10": {"train": [f"data_batch_{number}" for number in range(1, 6)], "test": ["test_batch"]},
    "cifar100": {"train": ["train"], "test": ["test"]},
}
LAYOUTS: dict[Name, list[Layout]] = {
    "cifar10": [
        Layout("cifar-10-binary.tar.gz", "cifar-10-batches-bin", ".bin", partial(_binary, label_bytes=1)),
        Layout("cifar-10-python.tar.gz", "cifar-10-batches-py", "", partial(_pickled, key=b"labels")),
    ],
    "cifar100": [
        Layout("cifar-100-binary.tar.gz", "cifar-100-binary", ".bin", partial(_binary, label_bytes=2)),
        Layout("cifar-100-python.tar.gz", "cifar-100-python", "", partial(_pickled, key=b"fine_labels")),
    ],
}
