"""What every data set has in common, however its images came."""

import unicodedata
from collections.abc import Iterable, Sequence
from itertools import count, islice
from numbers import Integral

from newfound.core.errors import UsageError
from newfound.data.augment.recipes import NORMALISATION
from newfound.data.few import few_warnings
from newfound.data.images import Dataset, Look, Split, Truth
from newfound.data.sizes import SMALL


def own_look(side: int) -> Look:
    """A user's images: small ones are treated as those of CIFAR, others as those of ImageNet."""
    mean, std = NORMALISATION["imagenet"]
    return Look(side, "cifar" if side <= SMALL else "imagenet", mean, std, stored=side)


def own_dataset(name: str, split: Split, known: Sequence[str], skipped: Sequence[str], why: str) -> Dataset:
    """A data set of a user's images of classes called `known` and others, whose size was chosen by `why`."""
    names = (*known, *novel_names(known, split.task.num_novel))
    note = f"{name}: {contents(split, None)} ({why})"
    if skipped:
        note += ", some files left out"
    return Dataset(name, split, None, names, tuple(skipped), note, warnings=few_warnings(split, known))


def contents(split: Split, truth: Truth | None) -> str:
    """One line: how many images of how many classes, how large."""
    known, novel = split.task.num_known, split.task.num_novel
    test = "" if truth is None else f", {len(truth.test):,} for test"
    return (
        f"{len(split.labelled):,} labelled images of {known} known class{'es' * (known > 1)}, "
        f"{len(split.unlabelled):,} unlabelled for {novel} novel class{'es' * (novel > 1)}{test}, "
        f"{split.look.size} x {split.look.size} pixels"
    )


def novel_names(taken: Iterable[str], number: int) -> tuple[str, ...]:
    """`novel-1`, `novel-2`, ..., without those that are taken."""
    used = set(taken)
    return tuple(islice((name for name in map("novel-{}".format, count(1)) if name not in used), number))


def is_one_line(name: str) -> bool:
    """Whether it has no control character, nor another that breaks a line."""
    return not any(unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") for char in name)


def checked_num_novel(num_novel: object) -> int:
    """A whole number of classes, of whatever type."""
    if not isinstance(num_novel, Integral) or isinstance(num_novel, bool) or num_novel < 1:
        estimate = "; any will do for newfound.estimate_num_novel, which finds it" * (num_novel == "auto")
        raise UsageError(
            f"num_novel must be at least 1 class to discover; got {num_novel!r}; give a whole number from 1"
            f"{estimate}"
        )
    return int(num_novel)
