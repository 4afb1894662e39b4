"""What own labelled images are too few for, said before a run and not after it."""

from newfound.core.errors import shortened
from newfound.data.holdout import TEST_EVERY
from newfound.data.images import Dataset


def warnings_before(dataset: Dataset) -> list[str]:
    """A single known class, and known classes of few images; nothing of a benchmark, which is as it is."""
    if dataset.truth is not None:
        return []
    warnings = []
    sizes = dataset.split.labels.bincount(minlength=dataset.split.task.num_known).tolist()
    if len(sizes) == 1:
        warnings.append(
            "a single known class teaches the network nothing, for there is no other to tell it from; label "
            "images of more classes"
        )
    few = [f"{size} of {dataset.class_names[row]!r}" for row, size in enumerate(sizes) if size < TEST_EVERY]
    if few:
        warnings.append(
            f"known classes have few labelled images: {shortened(few)}; with less than {TEST_EVERY} they can "
            "hardly be learnt, and newfound trust refuses them; give more, or leave such classes out"
        )
    return warnings
