"""A data set: the split that training sees, and the truth that only the evaluator sees."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from statistics import median
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from newfound.core.calls import public
from newfound.core.encoder import Channels
from newfound.core.errors import DataError, shortened
from newfound.core.records import Task
from newfound.core.settings import Count, Positive
from newfound.core.source import PileKind, Source
from newfound.data.augment.recipes import NORMALISATION
from newfound.data.decode import Size
from newfound.data.images import ImageSet

Kind = Literal["digits", "cifar", "imagenet", "vectors"]
Rows = npt.NDArray[np.int64]
TEST_EVERY = 5
"""Without a test set, every fifth image of each class becomes a test image."""
SIDES = (32, 64, 96, 128, 224)
SMALL = 64
"""Images up to this side are treated like those of CIFAR, larger ones like those of ImageNet."""
SMALLEST, LARGEST = 8, 1024


@dataclass(frozen=True)
class Look:
    """What augmentation and encoder need to know about the images."""

    size: Positive
    """Side of the square that the encoder sees, or length of the vectors."""
    kind: Kind
    """The family of augmentations."""
    mean: Channels
    std: Channels
    stored: Positive
    """Side of the square that images are resized to, before they are embedded if they are; larger than `size`
    if evaluation crops the centre."""

    @property
    def crops(self) -> bool:
        """Whether files keep their proportions: the shorter side becomes `stored`, and the centre is kept."""
        return self.stored > self.size


@dataclass(frozen=True)
class Split:
    """What training may see."""

    labelled: ImageSet
    labels: Tensor
    """(n_l,) int64 classes 0 .. C_l - 1 of the labelled images."""
    unlabelled: ImageSet
    num_known: int
    num_novel: int | None
    """None if unknown; 0 is possible if every image is labelled or may be of a known class."""
    look: Look
    pile: PileKind = "novel"
    """Whether unlabelled images may be of known classes."""

    def __post_init__(self) -> None:
        labelled, unlabelled = len(self.labelled), len(self.unlabelled)
        novel = 1 if self.num_novel is None else self.num_novel
        if not labelled or unlabelled < novel or (unlabelled > novel == 0 and self.pile == "novel"):
            few = f"{unlabelled} unlabelled images, which cannot be of {novel} novel classes"
            none = f"no {'unlabelled' if labelled else 'labelled'} images"
            raise DataError(f"There are {few if labelled and unlabelled else none}.")

    @property
    def task(self) -> Task:
        """The task of a learner; an unknown number of novel classes becomes 0, which suffices to pretrain."""
        return Task(self.num_known, self.num_novel or 0, len(self.unlabelled), self.pile, len(self.labelled))

    @property
    def resident(self) -> bool:
        """Whether a batch can be assembled without the host."""
        return self.labelled.resident and self.unlabelled.resident

    def to(self, device: torch.device) -> "Split":
        """The split on `device`; both sets are stored there or neither, so that a batch has one origin."""
        labelled, unlabelled = self.labelled.to(device), self.unlabelled.to(device)
        if labelled.resident != unlabelled.resident:
            labelled, unlabelled = self.labelled.to(device, False), self.unlabelled.to(device, False)
        return replace(self, labelled=labelled, labels=self.labels.to(device), unlabelled=unlabelled)


@dataclass(frozen=True)
class Truth:
    """What only the evaluator may see; labels are joint classes, known ones first."""

    labels: Tensor
    """(n_u,) int64 classes of the unlabelled images: C_l .. C - 1, or 0 .. C - 1 in a mixed pile."""
    test: ImageSet
    test_labels: Tensor
    """(n_t,) int64 classes 0 .. C - 1 of the test images."""

    def to(self, device: torch.device) -> "Truth":
        return Truth(self.labels.to(device), self.test.to(device), self.test_labels.to(device))


@dataclass(frozen=True)
class Dataset:
    """A split, its truth if there is one, and what to tell the user about them."""

    name: str
    split: Split
    truth: Truth | None
    class_names: tuple[str, ...]
    """Known classes, then novel ones: `novel-1`, ... if unnamed, none if their number is unknown."""
    skipped: tuple[str, ...] = ()
    """Files left out, each with the reason."""
    source: Source | None = None
    """What to load it from again; None if the images are in no file."""
    size_reason: str = ""
    """Why this image size was chosen, if it was."""
    warnings: tuple[str, ...] = ()
    """What looks wrong with the images."""

    @property
    def num_known(self) -> int:
        return self.split.num_known

    @property
    def num_novel(self) -> int | None:
        """How many novel classes to look for; None if unknown."""
        return self.split.num_novel

    @property
    def note(self) -> str:
        """What was loaded, in one line."""
        split, source, known = self.split, self.source or Source(), self.class_names[: self.num_known]
        others = self.class_names[self.num_known :]
        named = len(others) if self.truth else self.num_novel
        size, are_vectors = split.look.size, split.look.kind == "vectors"
        side = f"{size:,} features" if are_vectors else f"{size} x {size} pixels"
        noun = "vector" if are_vectors and not source.frozen else "image"
        also = "known classes and " if split.pile == "mixed" else ""
        counts = [
            f"{counted(len(split.labelled), f'labelled {noun}')} of {counted(len(known), 'known class')}",
            counted(len(split.unlabelled), f"unlabelled {noun}")
            + (f" of {also}{counted(named, 'novel class')}" if named is not None else ""),
            counted(len(self.truth.test), f"test {noun}") if self.truth else "",
            f"{side} ({self.size_reason})" if self.size_reason else side,
            f"at most {source.subset} per class" if source.subset else "",
            "some files left out" if self.skipped else "",
        ]
        note = f"{self.name}: {', '.join(filter(None, counts))}"
        if source.held_out is not None:
            note += f"; held-out known classes: {', '.join(others)}"
        if self.num_novel is not None and self.num_novel != named:
            note += f"; looking for {counted(self.num_novel, 'novel class')}"
        return note

    @public
    def with_num_novel(self, num_novel: Count) -> "Dataset":
        """The same images with `num_novel` novel classes to look for."""
        known = self.class_names[: self.num_known]
        names = self.class_names if self.truth else (*known, *novel_names(known, num_novel))
        source = self.source and self.source.model_copy(update={"num_novel": num_novel, "estimated": None})
        return replace(self, split=replace(self.split, num_novel=num_novel), class_names=names, source=source)

    def to(self, device: torch.device) -> "Dataset":
        truth = None if self.truth is None else self.truth.to(device)
        return replace(self, split=self.split.to(device), truth=truth)

    def fingerprint(self) -> str:
        """A digest of every image and label."""
        return next(self.fingerprints())

    def fingerprints(self) -> Iterator[str]:
        """The fingerprint, then what it would be if the images were in memory, or in files, instead."""
        split, truth = self.split, self.truth
        sets = [split.labelled, split.unlabelled, *([truth.test] if truth else [])]
        for labelled, unlabelled, *test in zip(*(each.fingerprints() for each in sets), strict=False):
            parts = [str(split.num_known), labelled, _digest(split.labels), unlabelled]
            if truth is not None:
                parts += [_digest(truth.labels), *test, _digest(truth.test_labels)]
            yield blake2b("/".join(parts).encode(), digest_size=16).hexdigest()


def novel_names(taken: Iterable[str], number: int) -> tuple[str, ...]:
    """`novel-1`, `novel-2`, ..., skipping names that are taken."""
    used = set(taken)
    names = (f"novel-{place}" for place in range(1, number + len(used) + 1))
    return tuple([name for name in names if name not in used][:number])


def rank_in_class(labels: npt.NDArray[np.generic]) -> Rows:
    """(n,) classes → (n,): how many rows of the same class come before each row."""
    order = np.argsort(labels, kind="stable")
    grouped = labels[order]
    rank = np.empty(len(labels), np.int64)
    rank[order] = np.arange(len(labels)) - np.searchsorted(grouped, grouped)
    return rank


def is_labelled(labels: Rows, num_known: int, pile: PileKind) -> npt.NDArray[np.bool_]:
    """Which images of classes (n,) are labelled: all known ones, or every second of each class if mixed."""
    known = (labels >= 0) & (labels < num_known)
    return known & (rank_in_class(labels) % 2 == 0) if pile == "mixed" else known


def counted(number: int, noun: str) -> str:
    """`1 class`, `2 classes`, `1,000 images`."""
    plural = "" if number == 1 else "es" if noun.endswith("s") else "s"
    return f"{number:,} {noun}{plural}"


def _digest(labels: Tensor) -> str:
    return blake2b(labels.cpu().numpy().tobytes(), digest_size=16).hexdigest()


def choose_side(sizes: Sequence[Size]) -> tuple[int, str]:
    """The side of the square that images of these sizes are resized to, and the reason.

    Small squares of one size stay as they are. Otherwise it is the side in SIDES whose ratio to the median of
    the shorter sides is nearest to 1.
    """
    height, width = sizes[0]
    if SMALLEST <= height <= SMALL and height == width and len(set(sizes)) == 1:
        return height, "the size of every image"
    middle = median(min(size) for size in sizes)
    side = min(SIDES, key=lambda side: max(side / middle, middle / side))
    return side, f"the nearest of {', '.join(map(str, SIDES))} to the median shorter side, {middle:g}"


def own_look(side: int) -> Look:
    """How images of this side are treated."""
    return Look(side, "cifar" if side <= SMALL else "imagenet", *NORMALISATION["imagenet"], stored=side)


def own_dataset(
    name: str,
    split: Split,
    known: Sequence[str],
    size_reason: str,
    warnings: Sequence[str],
    skipped: Sequence[str] = (),
    source: Source | None = None,
) -> Dataset:
    """A data set without truth, with the warnings about few labelled images added to `warnings`."""
    every = list(warnings)
    if len(known) == 1:
        every.append(
            "There is only one known class, so the network learns nothing. Label images of more classes."
        )
    sizes = zip(known, split.labels.bincount(minlength=len(known)).tolist(), strict=True)
    if few := [f"{size} of {name!r}" for name, size in sizes if size < TEST_EVERY]:
        every.append(
            f"Some known classes have few labelled images: {shortened(few)}. With fewer than {TEST_EVERY} a "
            "class can hardly be learnt, and cannot be held out."
        )
    names = (*known, *novel_names(known, split.num_novel or 0))
    return Dataset(name, split, None, names, tuple(skipped), source, size_reason, tuple(every))
