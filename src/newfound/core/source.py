"""Where a data set comes from, in a form that a run can store and load again."""

import os
from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, field_validator

from newfound.core.files import located
from newfound.core.settings import Count, Positive

PileKind = Literal["mixed", "novel"]
"""Whether unlabelled images may be of known classes too, or are of novel classes only."""
Engine = Literal["local", "ray"]
"""What reads sets without limit: this machine, or a Ray cluster."""
UNSORTED = "unsorted"
"""The group of images that are in no class."""


class EncoderVersion(BaseModel, extra="forbid", frozen=True):
    """The pretrained encoder that vectors come from."""

    encoder: str
    revision: str
    preprocessing: str

    def __str__(self) -> str:
        return f"{self.encoder}@{self.revision[:12]}" if self.revision else self.encoder


class Source(BaseModel, extra="forbid", frozen=True):
    """A named benchmark, a person's own labelled and unlabelled images, their embeddings, or arrays."""

    benchmark: str | None = None
    data_dir: str | None = None
    subset: Positive | None = None
    """At most this many images of each class."""
    labelled: str | None = None
    unlabelled: str | None = None
    num_novel: Count | None = None
    """How many novel classes to look for; None if unknown, or if the benchmark says it."""
    pile: PileKind | None = None
    """None: as the benchmark says; of own images, that of the method's paper."""
    size: Positive | None = None
    strict: bool = False
    arrays: str | None = None
    """The fingerprint of images that were passed in Python, which cannot be loaded again."""
    embeddings: str | None = None
    """The vectors that take the place of images."""
    embedded_by: EncoderVersion | None = None
    """What made them, where their files say so; else the frozen encoder that embeds the images."""
    views: Positive = 1
    """Vectors of each image that a frozen encoder makes."""
    vectors: bool = False
    """Whether `arrays` are vectors."""
    estimated: str | None = None
    """The algorithm that `num_novel` comes from, where it was estimated."""
    held_out: Count | None = None
    """How many known classes are treated as novel; the images of the true novel ones are dropped."""
    held_out_draw: Count = 0
    """Which ones: 0 for the last, else drawn with this seed."""
    follows: str | None = None
    """The run whose review has settled some labels."""
    class_ids: dict[str, int] | None = None
    """Its classes that are known now, with their ids."""
    next_id: int = 0
    """The first id that it has not used."""

    @field_validator("labelled", "unlabelled", "embeddings")
    @classmethod
    def _absolute(cls, path: str | None) -> str | None:
        """So that the images are found from any working directory."""
        return located(path) if path else path

    @property
    def name(self) -> str:
        """What recipes are looked up by: the benchmark, `vectors` or `own`."""
        if self.vectors or self.embeddings or self.frozen:
            return "vectors"
        return self.benchmark or "own"

    @property
    def frozen(self) -> EncoderVersion | None:
        """The encoder that embeds the images, so that discovery sees vectors of them."""
        return None if self.embeddings else self.embedded_by

    @property
    def unembedded(self) -> "Source":
        """The images that a frozen encoder embeds."""
        return self.model_copy(update={"embedded_by": None, "views": 1}) if self.frozen else self

    @property
    def title(self) -> str:
        """What the images are, whether or not they are embedded: the benchmark, `vectors` or `own`."""
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
        """Paths without the folder they were given in, so that they stay the same when it moves.

        Paths that a list names outside its own folder lose the folder they have in common.
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
