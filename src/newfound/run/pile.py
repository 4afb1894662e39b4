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
from newfound.core.source import PileKind
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
    kind: PileKind = "novel"
    """Whether known classes were among those that an image may have."""

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

    @cached_property
    def shares(self) -> Floats:
        """(n, C) probabilities that decide: among all classes, or among the novel ones, 0 for the known."""
        if self.kind == "mixed":
            return self.joint
        return np.pad(self.novel, ((0, 0), (self.num_known, 0)))

    def assignments(self, images: Sequence[str]) -> Assignments:
        """The most probable class of each image."""
        ids = self.shares.argmax(1)
        logits = self.logits.copy()
        if self.kind == "novel":
            logits[:, self.num_known :] = self.scores
        return Assignments(
            images=images,
            ids=ids,
            confidence=self.shares.max(1),
            is_outlier=outliers(logits[np.arange(len(ids)), ids], ids),
            num_known=self.num_known,
        )

    def write(self, path: Path) -> None:
        arrays = {"scores": self.scores, "logits": self.logits, "features": self.features}
        # Strides are not stored.
        arrays = {name: np.ascontiguousarray(value) for name, value in arrays.items()}
        with atomic(path) as temporary:
            facts = {"comparable": "yes" if self.comparable else "no", "kind": self.kind}
            temporary.write_bytes(save(arrays, metadata=facts))

    @classmethod
    def read(cls, path: Path) -> "Pile":
        """A file that `write` wrote."""
        try:
            with safe_open(path, framework="numpy") as file:
                scores, logits, features = map(file.get_tensor, ("scores", "logits", "features"))
                facts = file.metadata() or {}
                kind: PileKind = "mixed" if facts.get("kind") == "mixed" else "novel"
                return cls(scores, logits, features, facts.get("comparable") == "yes", kind)
        except (OSError, SafetensorError) as error:
            raise RunError(f"{path} does not hold this run's predictions ({error}).", Hint.RETRY) from None


def softmax(scores: Floats) -> Floats:
    """(n, C) → probabilities (n, C)."""
    shifted = np.exp(scores - scores.max(axis=1, keepdims=True, initial=-np.inf))
    probabilities: Floats = shifted / shifted.sum(axis=1, keepdims=True)
    return probabilities
