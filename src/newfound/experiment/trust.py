"""What became of known classes that were hidden, and looked for as the new ones were."""

from collections.abc import Sequence
from dataclasses import dataclass

from newfound.core.errors import RunError
from newfound.experiment.folder import Folder


@dataclass(frozen=True)
class Trust:
    """How well the hidden classes were found."""

    hidden: Sequence[str]
    images: int
    """Of the hidden classes, among which they were looked for."""
    accuracy: float
    """Of the head that is used."""
    over_heads: float
    """The mean of the accuracies of all heads."""
    largest: float | None
    """The share of the largest hidden class, the best that one guess gets; None if nobody noted it."""

    @classmethod
    def of(cls, folder: Folder) -> "Trust | None":
        """Of a run; None where nobody has asked yet, or it has not ended."""
        if not folder.trust.results.exists():
            return None
        run, trial = folder.read_results(), folder.trust.read_results()
        if "held_out" not in trial:
            raise RunError(
                f"{folder.trust.path} must hold what newfound trust wrote; got another run; move it away"
            )
        left, found = trial["classes"]["known"], trial["task_aware"]["train"]
        sizes = found.get("class_sizes")  # which earlier versions did not write
        return cls(
            hidden=[name for name in run["classes"]["known"] if name not in left],
            images=sum(trial["cluster_sizes"]),
            accuracy=found["acc"]["best_head"],
            over_heads=found["acc"]["mean"],
            largest=max(sizes) / sum(sizes) if sizes else None,
        )

    def __str__(self) -> str:
        used, mean = f"{100 * self.accuracy:.1f} %", f"{100 * self.over_heads:.1f} %"
        heads = f", by the head that is used, the one of the lowest loss; the mean of the heads is {mean}"
        chance = "" if self.largest is None else f"; all in one class would be {100 * self.largest:.1f} %"
        return (
            f"{len(self.hidden)} known classes were hidden and looked for in the same way "
            f"({', '.join(self.hidden)}): {used} of their {self.images:,} images came "
            f"into the right class (task-aware ACC, Hungarian matching){heads * (used != mean)}{chance}"
        )
