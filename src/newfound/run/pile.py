"""The predictions of a run on its unlabelled images, kept in pile.safetensors."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, save

from newfound.core.errors import Hint
from newfound.core.files import UNSEALED, read_tensors, reading, write_tensors
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
        facts = {"comparable": "yes" if self.comparable else "no", "kind": self.kind}
        write_tensors(path, save(arrays, facts | UNSEALED))

    @classmethod
    def read(cls, path: Path) -> "Pile":
        """A file that `write` wrote."""
        with reading(path, "the file of this run's predictions", hint=Hint.RETRY):
            arrays, facts = read_tensors(path, load)
            scores, logits, features = (arrays[name] for name in ("scores", "logits", "features"))
            shapes = scores.shape, logits.shape, features.shape
            (number, novel), (same, known_and_novel), (also, _) = shapes
            finite = all(each.dtype.kind == "f" and np.isfinite(each).all() for each in arrays.values())
            if not finite or not number == same == also or novel > known_and_novel:
                raise ValueError(f"its arrays {shapes} are not finite or do not fit each other")
            kind: PileKind = "mixed" if facts.get("kind") == "mixed" else "novel"
            return cls(scores, logits, features, facts.get("comparable") == "yes", kind)


def softmax(scores: Floats) -> Floats:
    """(n, C) → probabilities (n, C)."""
    shifted = np.exp(scores - scores.max(axis=1, keepdims=True, initial=-np.inf))
    probabilities: Floats = shifted / shifted.sum(axis=1, keepdims=True)
    return probabilities
