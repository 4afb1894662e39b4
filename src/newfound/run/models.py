"""The records of a run: one definition each, for writing, for reading and for Python callers."""

from typing import Literal

from pydantic import Field

from newfound.core.settings import Count, NonNegative, Positive
from newfound.core.source import EncoderVersion, PileKind, Source
from newfound.estimate.trial import Trial
from newfound.metrics.report import Generalised, Record, TaskAgnostic, TaskAware

Setting = bool | int | float | str
Settings = dict[str, Setting]
"""Resolved settings under the names that `key=value` uses."""


class Versioned(Record):
    """A file of another schema version is refused."""

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
    """The command that started the run, if it was one."""

    def differences(self, other: "Request") -> list[str]:
        """The names of the settings and data options that differ.

        Neither where a benchmark's files lie nor the number of processes matters. A run that has only
        pretrained on own images may have no number of novel classes yet.
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
        names = (mine | theirs).keys() - {"devices"}
        return sorted(key for key in names if mine.get(key) != theirs.get(key))


class Timing(Record):
    """What a stage took."""

    seconds: NonNegative
    """Without compilation."""
    compile_seconds: NonNegative = 0.0
    images: Count | None = None


class Reused(Timing):
    """A stage that an earlier run trained: what it took there, and how."""

    mode: str
    commit: str
    hardware: str


class Session(Record):
    """What trained a stage from an epoch on."""

    stage: str
    epoch: Count
    commit: str
    hardware: str
    precision: str
    mode: str


class Execution(Record):
    """How the steps ran."""

    precision: str
    mode: dict[str, str]


class CurvePoint(Record):
    """One epoch of a curve; most epochs are not evaluated."""

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
    """Of both, for good; None: 0, 1, ..."""

    @property
    def by_id(self) -> dict[int, str]:
        """Id → name, known classes first."""
        names = [*self.known, *self.novel]
        return dict(zip(range(len(names)) if self.ids is None else self.ids, names, strict=True))


class EstimatedNumber(Record):
    """The number of novel classes where it was estimated."""

    num_novel: Count
    algorithm: str
    low: Count | None = None
    high: Count | None = None


class Calibration(Record):
    """Whether confidence means what it says."""

    temperature: float = 1.0
    """Scores are divided by it; what makes confidence fit on known images that training did not see."""
    images: int = 0
    """How many; 0 where the confidence is not calibrated."""
    error: float | None = None
    """Expected calibration error on the unlabelled images, where their classes are known."""


class Provenance(Record):
    """Where a number comes from."""

    commit: str
    versions: dict[str, str]
    hardware: str


class Results(Versioned):
    """results.json, and the recorded runs under results/."""

    method: str
    recipe: str
    """Whose values: `published`, `newfound` (ours), `default`, `matched`, a variation or `custom`."""
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
    """Which pretrained weights the encoder started from; None for an encoder without any."""
    embedded_by: EncoderVersion | None = None
    """What made the vectors that the run is about, where that is known."""
    best_head: Count = 0
    curves: dict[str, list[CurvePoint]] = Field(default_factory=dict)
    classes: Classes | None = None
    cluster_sizes: list[Count] = Field(default_factory=list)
    """Images in each novel class."""
    known_sizes: list[Count] | None = None
    """Images in each known class; None where the pile is novel."""
    unsorted: int = 0
    """Images that are too far from the class they are most like."""
    warnings: list[str] = Field(default_factory=list)
    task_aware: TaskAware | None = None
    """None without ground truth."""
    task_agnostic: TaskAgnostic | None = None
    generalised: Generalised | None = None
    """Of mixed piles."""
    calibration: Calibration = Field(default_factory=Calibration)
    note: str | None = None

    @property
    def seconds(self) -> float:
        """Of all stages that this run trained, without compilation."""
        return sum(stage.seconds for stage in self.timing.values())


class Estimate(Versioned):
    """estimate.json: the trials so far and, at the end, the number of novel classes."""

    newfound: str
    method: str
    source: Source
    settings: Settings
    images: str
    """Fingerprint of the images and the known labels."""
    sample: Count | None = None
    """Unlabelled vectors that it rests on, if there are more."""
    num_known: Count
    num_hidden: Count
    seconds: NonNegative = 0.0
    curve: list[Trial] = Field(default_factory=list)
    num_novel: Count | None = None
    """None until the estimate is finished."""
    low: Count | None = None
    high: Count | None = None
    extra: Count | None = None
    """Of the trial that decided."""
    preferred: dict[str, Count] = Field(default_factory=dict)
    """Criterion → the `extra` at which it peaks."""
    warnings: list[str] = Field(default_factory=list)
    provenance: Provenance | None = None

    @property
    def algorithm(self) -> str:
        return str(self.settings["estimate.algorithm"])


class Trust(Versioned):
    """trust.json: how well known classes were found again when they were hidden."""

    hidden: list[str]
    images: Count
    """Images of the hidden classes."""
    accuracy: float
    """On them, of the head that is used, the one of lowest loss."""
    mean_accuracy: float
    """Over all heads."""
    largest_class: float | None = None
    """Share of the largest hidden class: the accuracy of putting all images into one class."""
    known_images: int = 0
    """Images of known classes in the pile; 0 if it was not mixed."""
    recognised: float | None = None
    """Share of them that are predicted to be of a known class."""
    mistaken: float | None = None
    """Share of the images of hidden classes that are."""
    number: EstimatedNumber | None = None
    """How many hidden classes an estimate finds; None if that was not tried."""
    kmeans: float | None = None
    """Accuracy of k-means on the same vectors; None if discovery saw images."""
    calibration_error: float | None = None
    """How far the confidence is off on average, images of hidden classes included."""
    unsorted: float = 0.0
    """Share of the images that were not sorted into any class, though all are of one."""
    accuracies: list[float] = Field(default_factory=list)
    """In each of several trials with other hidden classes: the numbers above are then means and sums, and
    `hidden` and `number` are those of the first."""
