"""The predictions of a run on its unlabelled images, kept in pile.safetensors."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from newfound.core.errors import Hint, RunError
from newfound.core.files import atomic
from newfound.metrics.outliers import outliers
from newfound.run.assignments import Assignments

Floats = NDArray[np.floating]


@dataclass(frozen=True)
class Pile:
    """Predictions of the selected head on n unlabelled images; C = C_l + C_u classes, known first."""

    scores: Floats
    """(n, C_u) scores of the novel classes."""
    logits: Floats
    """(n, C) joint logits."""
    features: Floats
    """(n, D) half-precision features of the encoder."""
    comparable: bool
    """Whether the joint logits can tell known from novel."""

    @property
    def num_known(self) -> int:
        return int(self.logits.shape[1] - self.scores.shape[1])

    @cached_property
    def novel(self) -> Floats:
        """(n, C_u) probabilities among the novel classes."""
        return softmax(self.scores)

    @cached_property
    def joint(self) -> Floats:
        """(n, C) probabilities among all classes."""
        return softmax(self.logits)

    def assignments(self, images: Sequence[str], known_names: Sequence[str]) -> Assignments:
        """The most probable novel class of each image."""
        known, others = self.joint[:, : self.num_known], self.joint[:, self.num_known :]
        clusters = self.novel.argmax(1) if len(self.novel) else np.zeros(0, np.int64)
        return Assignments(
            images=images,
            clusters=clusters,
            confidence=self.novel[np.arange(len(clusters)), clusters],
            is_outlier=outliers(self.scores[np.arange(len(clusters)), clusters], clusters),
            looks_known=self.comparable & (known.max(1) > others.max(1, initial=0)),
            nearest_known=[known_names[each] if self.comparable else "" for each in known.argmax(1)],
        )

    def write(self, path: Path) -> None:
        arrays = {"scores": self.scores, "logits": self.logits, "features": self.features}
        # Strides are not stored.
        arrays = {name: np.ascontiguousarray(value) for name, value in arrays.items()}
        with atomic(path) as temporary:
            temporary.write_bytes(save(arrays, metadata={"comparable": "yes" if self.comparable else "no"}))

    @classmethod
    def read(cls, path: Path) -> "Pile":
        """A file that `write` wrote."""
        try:
            with safe_open(path, framework="numpy") as file:
                scores, logits, features = map(file.get_tensor, ("scores", "logits", "features"))
                return cls(scores, logits, features, (file.metadata() or {}).get("comparable") == "yes")
        except (OSError, SafetensorError) as error:
            raise RunError(f"{path} does not hold this run's predictions ({error}).", Hint.RETRY) from None


def softmax(scores: Floats) -> Floats:
    """(n, C) → probabilities (n, C)."""
    shifted = np.exp(scores - scores.max(axis=1, keepdims=True, initial=-np.inf))
    probabilities: Floats = shifted / shifted.sum(axis=1, keepdims=True)
    return probabilities
