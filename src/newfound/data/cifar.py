"""Readers of the official CIFAR files, binary and Python; a pickle is read without running any of it."""

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from newfound.core.errors import DataError
from newfound.data.corpus import Corpus, Part
from newfound.data.images import ResidentImages
from newfound.data.subsets import Rows

Family = Literal["cifar10", "cifar100"]
Where = Literal["train", "test"]
SHAPE = (3, 32, 32)
PIXELS = 3 * 32 * 32

_NAMES_10 = "airplane automobile bird cat deer dog frog horse ship truck"
_NAMES_100 = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can
castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin
elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard
lobster man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear
pickup_truck pine_tree plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal
shark shrew skunk skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank
telephone television tiger tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm
"""
CIFAR10, CIFAR100 = tuple(_NAMES_10.split()), tuple(_NAMES_100.split())
NAMES: dict[Family, tuple[str, ...]] = {"cifar10": CIFAR10, "cifar100": CIFAR100}

Read = Callable[[Path], tuple[Tensor, Rows]]


@dataclass(frozen=True)
class Layout:
    """One official distribution: its folder, its files, its archive."""

    folder: str
    files: dict[Where, tuple[str, ...]]
    archive: str
    read: Read


def cifar_corpus(family: Family, data_dir: Path | None) -> Corpus:
    """The data set from whichever distribution lies under `data_dir`."""
    return Corpus(NAMES[family], _part(family, data_dir, "train"), _part(family, data_dir, "test"))


def read_cifar(family: Family, data_dir: Path | None, where: Where) -> tuple[Tensor, Rows]:
    """The official files under `data_dir` → pixels (n, 3, 32, 32) uint8 and labels (n,), in their order."""
    folder, layout = _find(family, data_dir)
    parts = []
    for name in layout.files[where]:
        if not (folder / name).is_file():
            raise DataError(f"{family} must have {name} in {folder}; got none; unpack {layout.archive} again")
        parts.append(layout.read(folder / name))
    pixels = torch.cat([pixels for pixels, _ in parts])
    labels = np.concatenate([labels for _, labels in parts])
    if labels.min() < 0 or labels.max() >= len(NAMES[family]):
        raise DataError(
            f"{family} labels must be 0 to {len(NAMES[family]) - 1}; got {labels.min()} to {labels.max()} in "
            f"{folder}; unpack {layout.archive} again"
        )
    return pixels, labels


HOME = "www.cs.toronto.edu/~kriz/cifar.html"
"""Where the official archives are."""


def archives(family: Family) -> str:
    """The official archives, any of which will do."""
    return " or ".join(layout.archive for layout in LAYOUTS[family])


def _part(family: Family, data_dir: Path | None, where: Where) -> Part:
    pixels, labels = read_cifar(family, data_dir, where)

    def pick(rows: Rows) -> ResidentImages:
        return ResidentImages(pixels[torch.from_numpy(rows)], [f"{family}/{where}/{row}" for row in rows])

    return Part(labels, pick)


def _find(family: Family, data_dir: Path | None) -> tuple[Path, Layout]:
    layouts = LAYOUTS[family]
    if data_dir is None:
        raise DataError(
            f"{family} needs a data folder; got none; unpack {archives(family)} of {HOME} and give "
            "the folder with --data-dir"
        )
    looked = [(folder, layout) for layout in layouts for folder in (data_dir / layout.folder, data_dir)]
    for folder, layout in looked:
        if (folder / layout.files["train"][0]).is_file():
            return folder, layout
    places = ", ".join(str(folder / layout.files["train"][0]) for folder, layout in looked)
    raise DataError(
        f"{family} must lie under {data_dir}; got none of {places}; unpack {archives(family)} of {HOME} there"
    )


def _binary(label_bytes: int) -> Read:
    """Rows of `label_bytes` labels, the last of which counts, then 3072 pixels."""

    def read(path: Path) -> tuple[Tensor, Rows]:
        row = label_bytes + PIXELS
        content = np.fromfile(path, np.uint8)
        if len(content) == 0 or len(content) % row:
            raise DataError(
                f"{path} must be a multiple of {row} bytes; got {len(content)}; it is damaged or of another "
                "data set, unpack the official archive again"
            )
        rows = content.reshape(-1, row)
        pixels = torch.from_numpy(rows[:, label_bytes:]).reshape(-1, *SHAPE)
        return pixels, rows[:, label_bytes - 1].astype(np.int64)

    return read


def _pickled(key: bytes) -> Read:
    """A dictionary of `data` (n, 3072) and the labels under `key`."""

    def read(path: Path) -> tuple[Tensor, Rows]:
        try:
            with path.open("rb") as file:
                batch = _InertUnpickler(file, encoding="bytes").load()
            pixels = batch[b"data"].array().reshape(-1, *SHAPE)
            labels = np.array(batch[key], np.int64)
            if labels.shape != (len(pixels),) or len(labels) == 0:
                raise ValueError(f"{len(pixels)} images and labels of shape {labels.shape}")
        except Exception as error:  # a damaged or hostile pickle may raise anything
            raise DataError(
                f"{path} must be an official CIFAR batch; got {error or type(error).__name__}; "
                "unpack the official archive again"
            ) from error
        return torch.from_numpy(pixels.copy()), labels

    return read


class _Inert:
    """Takes the place of everything a batch may name: keeps the state it is given and does nothing."""

    def __init__(self, *_: Any) -> None: ...

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state

    def array(self) -> npt.NDArray[np.uint8]:
        """The bytes, where the state is that of a numpy array."""
        _, shape, _, by_columns, content = self.state
        return np.frombuffer(content, np.uint8).reshape(shape, order="F" if by_columns else "C")


class _InertUnpickler(pickle.Unpickler):
    """Reads what an array of bytes is made of, and nothing else: no name in the file is ever imported."""

    ALLOWED = frozenset({"ndarray", "dtype", "_reconstruct"})

    def find_class(self, module: str, name: str) -> type[_Inert]:
        if module.partition(".")[0] == "numpy" and name in self.ALLOWED:
            return _Inert
        raise pickle.UnpicklingError(f"a pickle that asks for {module}.{name}, which no CIFAR file does")


def _both(names: tuple[str, ...], suffix: str) -> dict[Where, tuple[str, ...]]:
    *train, test = (name + suffix for name in names)
    return {"train": tuple(train), "test": (test,)}


_BATCHES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")
LAYOUTS: dict[Family, tuple[Layout, ...]] = {
    "cifar10": (
        Layout("cifar-10-batches-bin", _both(_BATCHES, ".bin"), "cifar-10-binary.tar.gz", _binary(1)),
        Layout("cifar-10-batches-py", _both(_BATCHES, ""), "cifar-10-python.tar.gz", _pickled(b"labels")),
    ),
    "cifar100": (
        Layout("cifar-100-binary", _both(("train", "test"), ".bin"), "cifar-100-binary.tar.gz", _binary(2)),
        Layout(
            "cifar-100-python",
            _both(("train", "test"), ""),
            "cifar-100-python.tar.gz",
            _pickled(b"fine_labels"),
        ),
    ),
}
