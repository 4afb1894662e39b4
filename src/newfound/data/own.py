"""What a user's own images have in common, whether they come as files or as arrays."""

from collections.abc import Sequence
from statistics import median

from newfound.core.errors import shortened
from newfound.core.source import Source
from newfound.data.augment.recipes import NORMALISATION
from newfound.data.dataset import TEST_EVERY, Dataset, Look, Split, novel_names
from newfound.data.decode import Size

SIDES = (32, 64, 96, 128, 224)
SMALL = 64
"""Images up to this side are treated like those of CIFAR, larger ones like those of ImageNet."""
SMALLEST, LARGEST = 8, 1024


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
