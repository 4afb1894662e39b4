"""The records of a run, each defined once for writing, reading and Python callers."""

from typing import Literal

from pydantic import Field

from newfound.core.settings import Count, NonNegative, Positive, Value
from newfound.core.source import EncoderVersion, PileKind, Source
from newfound.estimate.trial import Trial
from newfound.metrics.report import Generalised, Record, TaskAgnostic, TaskAware

Settings = dict[str, Value]
"""Resolved settings by the keys that `key=value` uses."""


class Versioned(Record):
    """A record with a schema version; files of other versions are refused."""

    schema_version: Literal[1] = 1


class Request(Versioned):
    """config.json: what a run was asked to do."""

    newfound: str
    method: str
    source: Source
    settings: Settings
    versions: dict[str, Count] = Field(default_factory=dict)
    """Stage → the `cache_version` of its code."""
    command: str | None = None
    """The command that started the run; None if it was started from Python."""

    def differences(self, other: "Request") -> list[str]:
        """The names of the settings and data options that differ.

        The location of a benchmark's files and the number of processes do not matter, nor do settings that
        this request does not have, since they are newer than the run. A run on a user's own images that has
        only pretrained may not have a number of novel classes yet.
        """
        mine, theirs = (
            {"method": each.method}
            | each.settings
            | each.source.model_dump(exclude={"data_dir", "embedded_by"})
            | ({"encoder": each.source.frozen} if each.source.frozen else {})
            for each in (self, other)
        )
        if self.source.num_novel is None and not self.source.benchmark:
            theirs |= {"num_novel": None, "estimated": None}
        newer = other.settings.keys() - self.settings.keys()
        names = (mine | theirs).keys() - newer - {"devices"}
        return sorted(key for key in names if mine.get(key) != theirs.get(key))


class Timing(Record):
    """The time that a stage took."""

    seconds: NonNegative
    """Excluding compilation."""
    compile_seconds: NonNegative = 0.0
    images: Count | None = None


class Reused(Timing):
    """How a stage was trained; in results.json, by an earlier run."""

    mode: str
    commit: str
    hardware: str


class Session(Record):
    """The conditions under which a stage was trained from an epoch on."""

    stage: str
    epoch: Count
    commit: str
    hardware: str
    precision: str
    mode: str


class Execution(Record):
    """How the training steps were executed."""

    precision: str
    mode: dict[str, str]
    """Stage → mode."""


class CurvePoint(Record):
    """One epoch of a curve; without `scores` if it was not evaluated."""

    epoch: Count
    lr: NonNegative
    losses: dict[str, float]
    scores: dict[str, float]


class EpochLine(CurvePoint):
    """A line of metrics.jsonl."""

    stage: str
    head_losses: list[float]
    seconds: NonNegative
    images_per_second: NonNegative
    compile_seconds: NonNegative = 0.0


class Classes(Record):
    """The names of the known and of the novel classes."""

    known: list[str]
    novel: list[str]
    ids: list[int] | None = None
    """Permanent ids of all classes, known ones first; None for 0, 1, ..."""

    @property
    def by_id(self) -> dict[int, str]:
        """Id → name, known classes first."""
        names = [*self.known, *self.novel]
        return dict(zip(range(len(names)) if self.ids is None else self.ids, names, strict=True))


WIDE = 4
"""A range is too wide to help if its upper end is more than this many times its lower end."""


class EstimatedNumber(Record):
    """An estimated number of novel classes, with its range."""

    num_novel: Count
    algorithm: str
    low: Count | None = None
    high: Count | None = None

    @property
    def is_vague(self) -> bool:
        """Whether the features cannot tell the number."""
        return (self.high or 0) > WIDE * (self.low or 0)


class Calibration(Record):
    """The calibration of confidence."""

    temperature: float = 1.0
    """Scores are divided by it; it was fitted on known images that training did not see."""
    images: int = 0
    """How many images it was fitted on; 0 if the confidence is not calibrated."""
    error: float | None = None
    """Expected calibration error on the unlabelled images; None without ground truth."""


class Provenance(Record):
    """The code, versions and hardware behind a number."""

    commit: str
    versions: dict[str, str]
    hardware: str


class Results(Versioned):
    """results.json, and the recorded runs under results/."""

    method: str
    recipe: str
    """Whose settings: `published`, `newfound` (ours), `default`, `matched`, a variation or `custom`."""
    benchmark: str
    pile: PileKind = "novel"
    subset: Positive | None = None
    held_out: Count | None = None
    estimate: EstimatedNumber | None = None
    seed: Count
    config: Settings
    commit: str
    versions: dict[str, str]
    hardware: str
    execution: Execution | None = None
    sessions: list[Session] = Field(default_factory=list)
    timing: dict[str, Timing]
    reused: dict[str, Reused] = Field(default_factory=dict)
    peak_memory_gib: NonNegative | None = None
    encoder_revision: str | None = None
    """The pretrained weights that the encoder started from; None if there were none."""
    embedded_by: EncoderVersion | None = None
    """The encoder that made the vectors, if known; None for images."""
    best_head: Count = 0
    curves: dict[str, list[CurvePoint]] = Field(default_factory=dict)
    classes: Classes | None = None
    cluster_sizes: list[Count] = Field(default_factory=list)
    """Images in each novel class."""
    known_sizes: list[Count] | None = None
    """Images of the pile in each known class; None if there are none in a novel pile."""
    unsorted: int = 0
    """Images that are too far from their most probable class."""
    warnings: list[str] = Field(default_factory=list)
    task_aware: TaskAware | None = None
    """None without ground truth."""
    task_agnostic: TaskAgnostic | None = None
    generalised: Generalised | None = None
    """None unless the pile is mixed."""
    calibration: Calibration = Field(default_factory=Calibration)
    note: str | None = None

    @property
    def discovery(self) -> Timing:
        """The time of discovery; none if this run did not train it."""
        return self.timing.get("discover", Timing(seconds=0.0))

    @property
    def seconds(self) -> float:
        """The time of all stages that this run trained, excluding compilation."""
        return sum(stage.seconds for stage in self.timing.values())


class Estimate(Versioned):
    """estimate.json: the trials so far and, once finished, the number of novel classes."""

    newfound: str
    method: str
    source: Source
    settings: Settings
    images: str
    """Fingerprint of the images and the known labels."""
    sample: Count | None = None
    """How many unlabelled vectors it is based on; None for all."""
    num_known: Count
    num_hidden: Count
    seconds: NonNegative = 0.0
    curve: list[Trial] = Field(default_factory=list)
    num_novel: Count | None = None
    """None until the estimate is finished."""
    low: Count | None = None
    high: Count | None = None
    extra: Count | None = None
    """`extra` of the trial that decided."""
    preferred: dict[str, Count] = Field(default_factory=dict)
    """Criterion → the `extra` at which it peaks."""
    warnings: list[str] = Field(default_factory=list)
    provenance: Provenance | None = None

    @property
    def algorithm(self) -> str:
        return str(self.settings["estimate.algorithm"])


class Trust(Versioned):
    """trust.json: how well hidden known classes were found again.

    If there were several trials with different hidden classes, figures are means or sums over them, but
    `hidden` are the classes of the first.
    """

    hidden: list[str]
    images: Count
    """Images of the hidden classes."""
    accuracy: float
    """Accuracy on them, of the head of lowest loss."""
    mean_accuracy: float
    """Mean accuracy of all heads."""
    largest_class: float | None = None
    """Share of the largest hidden class: the accuracy of putting all images into one class."""
    known_images: int = 0
    """Images of known classes in the pile; 0 unless it is mixed."""
    recognised: float | None = None
    """Share of the images of known classes that are predicted to be of a known class."""
    mistaken: float | None = None
    """Share of the images of hidden classes that are predicted to be of a known class."""
    numbers: list[EstimatedNumber] = Field(default_factory=list)
    """The estimated number of hidden classes, for each trial; empty if it was not estimated."""
    kmeans: float | None = None
    """Accuracy of k-means on the same vectors; None for images."""
    calibration_error: float | None = None
    """Expected calibration error on all images of the pile."""
    unsorted: float = 0.0
    """Share of the images that were not sorted into a class, although all belong to one."""
    accuracies: list[float] = Field(default_factory=list)
    """Accuracy of each trial; empty if there was only one."""
