"""The predictions of a run on its unlabelled images, kept in pile.safetensors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, save

from newfound.core.errors import Hint
from newfound.core.files import UNSEALED, read_tensors, reading, write_tensors
from newfound.core.source import PileKind
from newfound.metrics.outliers import Extent, Flags
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
    extent: Extent | None = None
    """How far the classes reach among the vectors; None for images."""
    digests: Sequence[str] = ()
    """(n,) of the contents of the images, if they come from files."""
    labelled: Mapping[str, int] = field(default_factory=dict)
    """The digest of each labelled image → its class."""

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

    def assignments(self, images: Sequence[str], unsorted: Flags | None = None) -> Assignments:
        """The most probable class of each image; that of a labelled image for a copy of it."""
        ids, confidence = self.shares.argmax(1), self.shares.max(1)
        unsorted = np.zeros(len(images), dtype=bool) if unsorted is None else unsorted.copy()
        for row, digest in enumerate(self.digests):
            if digest in self.labelled:
                ids[row], confidence[row], unsorted[row] = self.labelled[digest], 1, False
        return Assignments(images, ids, confidence, unsorted, self.num_known)

    def write(self, path: Path) -> None:
        arrays: dict[str, NDArray[np.generic]]
        arrays = {"scores": self.scores, "logits": self.logits, "features": self.features}
        if self.extent:
            arrays |= {"centres": self.extent.centres, "radii": self.extent.radii}
        arrays |= {"digests": packed(self.digests), "labelled": packed(list(self.labelled))}
        arrays["labels"] = np.array(list(self.labelled.values()), np.int64)
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
            labels, (number, novel), both = arrays["labels"], scores.shape, logits.shape[1]
            lengths = {"scores": number, "logits": number, "features": number, "centres": both, "radii": both}
            floats = {name: each for name, each in arrays.items() if name in lengths}
            finite = all(each.dtype.kind == "f" and np.isfinite(each).all() for each in floats.values())
            fitting = all(each.shape[:1] == (lengths[name],) for name, each in floats.items())
            numbered = labels.dtype.kind == "i" and np.isin(labels, range(both)).all()
            if not (finite and fitting and numbered and novel <= both and features.ndim == 2):
                raise ValueError("its arrays are not finite or do not fit each other")
            kind: PileKind = "mixed" if facts.get("kind") == "mixed" else "novel"
            extent = Extent(arrays["centres"], arrays["radii"]) if "radii" in arrays else None
            return cls(
                *(scores, logits, features, facts.get("comparable") == "yes", kind, extent),
                digests=unpacked(arrays["digests"]),
                labelled=dict(zip(unpacked(arrays["labelled"]), arrays["labels"].tolist(), strict=True)),
            )


def packed(digests: Sequence[str]) -> NDArray[np.uint8]:
    """(n,) digests of one length → (n, length) their characters; a header of a file would be too small."""
    return np.frombuffer("".join(digests).encode(), np.uint8).reshape(len(digests), -1 if digests else 0)


def unpacked(characters: NDArray[np.uint8]) -> list[str]:
    """What was `packed`."""
    return [bytes(row).decode() for row in characters]


def softmax(scores: Floats) -> Floats:
    """(n, C) → probabilities (n, C)."""
    shifted = np.exp(scores - scores.max(axis=1, keepdims=True, initial=-np.inf))
    probabilities: Floats = shifted / shifted.sum(axis=1, keepdims=True)
    return probabilities
