"""Sets of uint8 images, and a data set cut into what training may see and what only the evaluator may."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from newfound.core.errors import DataError
from newfound.core.records import Task
from newfound.data.ahead import ahead
from newfound.data.decode import Size, decode_all

Kind = Literal["digits", "cifar", "imagenet"]
Channels = tuple[float, float, float]


class ImageSet(ABC):
    """n images of one size, by row."""

    size: Size
    names: Sequence[str]
    device: torch.device
    """Where images are taken."""
    _fingerprint: str | None = None

    def __len__(self) -> int:
        return len(self.names)

    def take(self, index: Tensor) -> Tensor:
        """Rows (n,) int64 → (n, 3, H, W) uint8 on the set's device."""
        return on_device(self.fetch(index), self.device)

    def take_each(self, indices: Iterable[Tensor]) -> Iterator[Tensor]:
        """`take` one after the other, the next being fetched while one is used where that takes time."""
        if self.resident:
            return map(self.take, indices)
        host = (index.cpu() for index in indices)
        return (on_device(pixels, self.device) for pixels in ahead(self.fetch, host))

    @abstractmethod
    def fetch(self, index: Tensor) -> Tensor:
        """The same where the images are kept; host rows of a set that is not resident need no device."""

    def to(self, device: torch.device, move: bool = True) -> "ImageSet":
        """The same images, taken on `device`; kept there if they fit and may `move`."""
        there = self.placed(device, move)
        there._fingerprint = self._fingerprint
        return there

    def fingerprint(self) -> str:
        """A digest that changes when the images do; made once, and taken along to another device."""
        if self._fingerprint is None:
            self._fingerprint = self.digest()
        return self._fingerprint

    @abstractmethod
    def some(self, rows: Tensor) -> "ImageSet":
        """The images in `rows` (n,); nothing of the others is kept."""

    @abstractmethod
    def placed(self, device: torch.device, move: bool) -> "ImageSet":
        """What `to` gives, of which nothing was digested."""

    @abstractmethod
    def digest(self) -> str:
        """What `fingerprint` gives, made anew."""

    @property
    @abstractmethod
    def resident(self) -> bool:
        """Whether `take` stays on the device."""


def on_device(pixels: Tensor, device: torch.device) -> Tensor:
    """The same on `device`; from the host to a GPU without waiting for what the GPU still has to do."""
    if device.type == "cuda" and not pixels.is_cuda:
        return pixels.pin_memory().to(device, non_blocking=True)
    return pixels.to(device)


class ResidentImages(ImageSet):
    """Images in memory: on the device when they fit there, otherwise on the host and copied when taken."""

    def __init__(self, pixels: Tensor, names: Sequence[str], device: torch.device | None = None) -> None:
        self.pixels, self.names = pixels, names
        self.size = (pixels.shape[2], pixels.shape[3])
        self.device = device or pixels.device

    def fetch(self, index: Tensor) -> Tensor:
        return self.pixels.index_select(0, index.to(self.pixels.device))

    def some(self, rows: Tensor) -> "ResidentImages":
        return ResidentImages(self.fetch(rows), _at(self.names, rows), self.device)

    def placed(self, device: torch.device, move: bool) -> "ResidentImages":
        pixels = self.pixels.to(device) if move and _fits(self.pixels.nbytes, device) else self.pixels
        return ResidentImages(pixels, self.names, device)

    @property
    def resident(self) -> bool:
        # By type: "cuda" and "cuda:0" are one device under two names.
        return self.pixels.device.type == self.device.type

    def digest(self) -> str:
        digest = blake2b(str(tuple(self.pixels.shape)).encode(), digest_size=16)
        digest.update(self.pixels.cpu().contiguous().view(-1).numpy().data)
        return digest.hexdigest()


class StreamedImages(ImageSet):
    """Files decoded each time they are taken: for sets larger than `files.RESIDENT_BYTES`."""

    def __init__(self, paths: Sequence[str], size: Size, device: torch.device | None = None) -> None:
        self.names, self.size = paths, size
        self.device = device or torch.device("cpu")

    def fetch(self, index: Tensor) -> Tensor:
        pixels, _, failures = decode_all(_at(self.names, index), self.size, strict=False)
        if failures:
            raise DataError(
                f"{failures[0]}; the files of a run must stay as they are while it lasts; bring it back, "
                "then repeat the call, with --resume where the command has it"
            )
        return pixels

    def some(self, rows: Tensor) -> "StreamedImages":
        return StreamedImages(_at(self.names, rows), self.size, self.device)

    def placed(self, device: torch.device, move: bool) -> "StreamedImages":
        return StreamedImages(self.names, self.size, device)

    @property
    def resident(self) -> bool:
        return False

    def digest(self) -> str:
        digest = blake2b(str(self.size).encode(), digest_size=16)
        for path in map(Path, self.names):  # without its folder, which may move
            digest.update(f"{path.name}\0{path.stat().st_size}\0".encode())
        return digest.hexdigest()


@dataclass(frozen=True)
class Look:
    """What augmentation and encoder must know of the images, and what new images must be made to match."""

    size: int
    """Side of the square that the encoder sees."""
    kind: Kind
    """The family of augmentations."""
    mean: Channels
    std: Channels
    stored: int
    """Side of the square that files are resized to: larger than `size` where evaluation cuts off a margin."""


@dataclass(frozen=True)
class Split:
    """What training may see."""

    labelled: ImageSet
    labels: Tensor
    """(n_l,) int64 classes 0 .. C_l - 1 of the labelled images."""
    unlabelled: ImageSet
    task: Task
    look: Look

    def __post_init__(self) -> None:
        if self.task.num_novel < 1:
            raise DataError(
                f"there must be a novel class to discover; got num_novel={self.task.num_novel}; "
                "ask for at least 1"
            )
        if self.task.num_known < 1 or len(self.labelled) == 0:
            raise DataError(
                f"there must be labelled images of known classes; got {len(self.labelled)} images of "
                f"{self.task.num_known} classes; label some images"
            )
        if len(self.unlabelled) < self.task.num_novel:
            raise DataError(
                "there must be at least as many unlabelled images as novel classes; got "
                f"{len(self.unlabelled)} images for {self.task.num_novel} classes; "
                "add images or ask for fewer classes"
            )
        object.__setattr__(self, "task", replace(self.task, num_unlabelled=len(self.unlabelled)))

    @property
    def resident(self) -> bool:
        """Whether a batch can be put together without the host."""
        return self.labelled.resident and self.unlabelled.resident

    def to(self, device: torch.device) -> "Split":
        """Taken on `device`; both sets are kept there or neither, so that a batch comes from one place."""
        labelled, unlabelled = self.labelled.to(device), self.unlabelled.to(device)
        if labelled.resident != unlabelled.resident:
            labelled, unlabelled = self.labelled.to(device, False), self.unlabelled.to(device, False)
        return replace(self, labelled=labelled, labels=self.labels.to(device), unlabelled=unlabelled)


@dataclass(frozen=True)
class Truth:
    """What only the evaluator may see; labels are joint classes, the known ones first."""

    labels: Tensor
    """(n_u,) int64 classes C_l .. C - 1 of the unlabelled images."""
    test: ImageSet
    test_labels: Tensor
    """(n_t,) int64 classes 0 .. C - 1 of the test images."""

    def to(self, device: torch.device) -> "Truth":
        return Truth(self.labels.to(device), self.test.to(device), self.test_labels.to(device))


@dataclass(frozen=True)
class Dataset:
    """A split, its truth where somebody knows it, and what to tell the user about both."""

    name: str
    split: Split
    truth: Truth | None
    class_names: tuple[str, ...]
    """Known classes, then novel ones; `novel-1`, ... where nobody has named them."""
    skipped: tuple[str, ...]
    """Files left out, each with the reason."""
    note: str
    """One line: what was loaded."""
    origin: Mapping[str, Any] = field(default_factory=dict)
    """What `Source` needs to load it again; nothing where it is in no file."""
    warnings: tuple[str, ...] = ()
    """What looks wrong with the images."""

    def to(self, device: torch.device) -> "Dataset":
        truth = None if self.truth is None else self.truth.to(device)
        return replace(self, split=self.split.to(device), truth=truth)

    def fingerprint(self) -> str:
        """A digest of every image and label."""
        split, truth = self.split, self.truth
        parts = [repr(split.task), split.labelled.fingerprint(), _digest(split.labels)]
        parts.append(split.unlabelled.fingerprint())
        if truth is not None:
            parts += [_digest(truth.labels), truth.test.fingerprint(), _digest(truth.test_labels)]
        return blake2b("/".join(parts).encode(), digest_size=16).hexdigest()


def _at(names: Sequence[str], rows: Tensor) -> list[str]:
    return [names[row] for row in rows.tolist()]


def _digest(labels: Tensor) -> str:
    return blake2b(labels.cpu().numpy().tobytes(), digest_size=16).hexdigest()


def _fits(num_bytes: int, device: torch.device) -> bool:
    """Whether images may take this much of the device: a GPU keeps half of its free memory for training."""
    if device.type != "cuda":
        return True
    free, _ = torch.cuda.mem_get_info(device)
    return num_bytes <= free // 2
