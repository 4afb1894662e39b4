"""What own labelled images are too few for, said before a run and not after it."""

from collections.abc import Sequence

from newfound.core.errors import shortened
from newfound.data.images import Split
from newfound.data.subsets import TEST_EVERY


def few_warnings(split: Split, known: Sequence[str]) -> tuple[str, ...]:
    """A single known class, and known classes of few images."""
    warnings = []
    if len(known) == 1:
        warnings.append(
            "a single known class teaches the network nothing, for there is no other to tell it from; label "
            "images of more classes"
        )
    sizes = split.labels.bincount(minlength=len(known)).tolist()
    few = [f"{size} of {name!r}" for name, size in zip(known, sizes, strict=True) if size < TEST_EVERY]
    if few:
        warnings.append(
            f"known classes have few labelled images: {shortened(few)}; with less than {TEST_EVERY} they can "
            "hardly be learnt, and newfound trust refuses them; give more, or leave such classes out"
        )
    return tuple(warnings)
