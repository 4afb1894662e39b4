"""The report of an evaluation: each number as the mean over the heads and for the head of lowest loss."""

from pydantic import BaseModel, ConfigDict, Field


class Record(BaseModel):
    """A record that is stored as JSON; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, allow_inf_nan=False)


class Score(Record):
    """One number; None if it could not be measured."""

    mean: float | None = None
    best_head: float | None = None


class Clusters(Record):
    """The task-aware protocol on one split; the lists are those of the best head."""

    acc: Score
    nmi: Score
    ari: Score
    per_class_accuracy: list[float | None]
    cluster_sizes: list[int]
    class_sizes: list[int] | None = None
    """None in records of early versions."""


class TaskAware(Record):
    """Images of novel classes, predicted among the novel classes."""

    train: Clusters
    test: Clusters


class Accuracies(Record):
    """Accuracy on the images of known classes, of novel classes, and of both."""

    known: Score
    novel: Score
    all: Score


class TaskAgnostic(Record):
    """All test images, predicted among all classes, with three kinds of matching."""

    legacy: Accuracies
    novel_ids: Accuracies = Field(alias="novel-ids")
    joint: Accuracies


class Recognition(Accuracies):
    """One split of a mixed pile; GCD calls known classes Old and novel ones New."""

    recognised: Score
    """Share of the images of known classes that are predicted to be of a known class, right or wrong."""
    mistaken: Score
    """Share of the images of novel classes that are predicted to be of a known class."""


class Generalised(Record):
    """The unlabelled and the test images of a mixed pile, predicted among all classes, matched jointly."""

    train: Recognition
    test: Recognition


class Report(Record):
    """The three protocols; k-means on raw pixels has only the first, and only mixed piles have the last."""

    task_aware: TaskAware
    task_agnostic: TaskAgnostic | None = None
    generalised: Generalised | None = None
