"""Where a data set comes from, in a form that a run can store and load again."""

import os
from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, field_validator

from newfound.core.files import located
from newfound.core.settings import Count, Positive

PileKind = Literal["mixed", "novel"]
"""Whether unlabelled images may also be of known classes, or are of novel classes only."""
Engine = Literal["local", "ray"]
"""Where the parts of a large set are processed: on this machine, or on a Ray cluster."""
UNSORTED = "unsorted"
"""The group of images without a class."""


class EncoderVersion(BaseModel, extra="forbid", frozen=True):
    """The pretrained encoder that vectors come from."""

    encoder: str
    revision: str
    preprocessing: str

    def __str__(self) -> str:
        return f"{self.encoder}@{self.revision[:12]}" if self.revision else self.encoder


class Source(BaseModel, extra="forbid", frozen=True):
    """A named benchmark, a user's own labelled and unlabelled images, their embeddings, or arrays."""

    benchmark: str | None = None
    data_dir: str | None = None
    subset: Positive | None = None
    """At most this many images of each class."""
    labelled: str | None = None
    unlabelled: str | None = None
    num_novel: Count | None = None
    """How many novel classes to look for; None if unknown or set by the benchmark."""
    pile: PileKind | None = None
    """None: set by the benchmark or, for a user's own images, by the method's paper."""
    size: Positive | None = None
    strict: bool = False
    arrays: str | None = None
    """The fingerprint of images that were passed in Python and cannot be loaded again."""
    embeddings: str | None = None
    """The files of vectors that replace the images."""
    more_embeddings: tuple[str, ...] = ()
    """The files of vectors that joined them in later runs."""
    embedded_by: EncoderVersion | None = None
    """The encoder of these vectors, if their files name it; otherwise the frozen encoder of the images."""
    views: Positive = 1
    """Views of each image that a frozen encoder embeds."""
    vectors: bool = False
    """Whether `arrays` are vectors."""
    estimated: str | None = None
    """The algorithm that estimated `num_novel`, if one did."""
    held_out: Count | None = None
    """How many known classes are treated as novel; the images of the true novel ones are dropped."""
    held_out_draw: Count = 0
    """Which ones: the last for 0, those before them for 1, and so on, around the list of classes."""
    follows: str | None = None
    """The run whose review provided some of the labels."""
    class_ids: dict[str, int] | None = None
    """The ids of the known classes, continued from that run."""
    next_id: int = 0
    """The first id that that run has not used."""

    @field_validator("labelled", "unlabelled", "embeddings")
    @classmethod
    def _absolute(cls, path: str | None) -> str | None:
        """The absolute path, so that the images are found from any working directory."""
        return located(path) if path else path

    @property
    def name(self) -> str:
        """The name by which recipes are looked up: the benchmark, `vectors` or `own`."""
        if self.vectors or self.embeddings or self.frozen:
            return "vectors"
        return self.benchmark or "own"

    @property
    def frozen(self) -> EncoderVersion | None:
        """The encoder that embeds the images, if discovery works on their vectors."""
        return None if self.embeddings else self.embedded_by

    @property
    def unembedded(self) -> "Source":
        """The source of the images themselves, before a frozen encoder embeds them."""
        return self.model_copy(update={"embedded_by": None, "views": 1}) if self.frozen else self

    @property
    def title(self) -> str:
        """The same for the images themselves, whether or not they are embedded."""
        return self.unembedded.name

    @property
    def has_truth(self) -> bool:
        """Whether the classes of its unlabelled images are known to the evaluator."""
        return self.benchmark is not None or self.held_out is not None

    def ids_of(self, known: Sequence[str], num_novel: int) -> list[int] | None:
        """The ids of the known classes, then of the novel ones; None if they are 0, 1, ..."""
        if self.class_ids is None:
            return None
        return [*(self.class_ids[name] for name in known), *range(self.next_id, self.next_id + num_novel)]

    def relative(self, paths: Sequence[str]) -> list[str]:
        """Paths relative to the folder they were given in, so that they stay the same when it moves.

        Paths that a list names outside its own folder are relative to their common folder.
        """
        roots = []
        for given in filter(None, (self.unlabelled, self.labelled)):
            folder = os.path.join(given, "")
            if not any(path.startswith(folder) for path in paths):  # a CSV or list, or it holds none of them
                folder = os.path.join(os.path.dirname(given), "")
            roots.append(folder)
        if roots and (elsewhere := [path for path in paths if not path.startswith(tuple(roots))]):
            roots.append(os.path.join(os.path.commonpath([os.path.dirname(path) for path in elsewhere]), ""))
        return [path.removeprefix(next(filter(path.startswith, roots), "")) for path in paths]
