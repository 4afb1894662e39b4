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
        left = trial["classes"]["known"]
        return cls(
            hidden=[name for name in run["classes"]["known"] if name not in left],
            images=sum(trial["cluster_sizes"]),
            accuracy=trial["task_aware"]["train"]["acc"]["best_head"],
        )

    def __str__(self) -> str:
        return (
            f"{len(self.hidden)} known classes were hidden and looked for in the same way "
            f"({', '.join(self.hidden)}): {100 * self.accuracy:.1f} % of their {self.images:,} images came "
            "into the right class (task-aware ACC, Hungarian matching)"
        )
