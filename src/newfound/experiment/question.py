"""What an estimate is asked for, and the images it is asked about."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from newfound.core.config import Recipe
from newfound.core.errors import UsageError
from newfound.core.records import Say, Task
from newfound.core.registry import recipe_for
from newfound.data.images import Dataset, Split
from newfound.estimate.config import PREFIX, EstimateConfig, estimate_config, split_settings
from newfound.estimate.probe import UNKNOWN
from newfound.experiment.idle import idle_line
from newfound.experiment.source import Source

USUAL = "iic"
"""The method where nobody names one, whose pretraining serves those that have none."""
NETWORK_STAGES = ("rotnet", "pretrain", "known")
"""The stages of pretraining that make a classifier of known classes; others presume the number."""


@dataclass(frozen=True)
class Question:
    """Everything that decides an estimate besides the images themselves."""

    source: Source
    method: str
    recipe: Recipe
    """k-means with the pretraining of the method."""
    config: EstimateConfig

    @classmethod
    def of(cls, source: Source, method: str, settings: Mapping[str, Any]) -> "Question":
        """Settings are those of the method, and those of the estimate as `estimate.key`."""
        own, others = split_settings(settings)
        asked = recipe_for(method, source.name, others)
        usual, plain = (recipe_for(name, source.name) for name in (USUAL, "kmeans"))
        stages = {stage: train for stage, train in asked.train.items() if stage in NETWORK_STAGES}
        train = (stages or {"pretrain": usual.train["pretrain"]}) | {"discover": plain.train["discover"]}
        # Weights given by hand may have seen the classes that are to be hidden.
        run = replace(asked.run, pretrained="")
        return cls(source, method, replace(plain, train=train, run=run), estimate_config(source.name, own))

    def idle_line(self, settings: Mapping[str, Any]) -> str:
        """What is said of settings that it was asked with and does not use; empty if it uses all."""
        others = split_settings(settings)[1]
        return idle_line(recipe_for(self.method, self.source.name, others), self.recipe.pretraining, others)

    def as_dict(self) -> dict[str, Any]:
        training = tuple(f"{stage}." for stage in self.recipe.pretraining)
        run, flat = asdict(self.recipe.run), self.recipe.flat()
        settings = {key: value for key, value in flat.items() if key.startswith(training) or key in run}
        settings |= {PREFIX + key: value for key, value in asdict(self.config).items()}
        return {"method": self.method, "data": self.source.as_dict(), "settings": settings}


def load_unnumbered(source: Source, say: Say = lambda line: None) -> Dataset:
    """The images of a source, for which nobody need say how many novel classes there are."""
    if source.benchmark:
        return replace(source, num_novel=None).load(say)
    if not (source.labelled and source.unlabelled):
        raise UsageError(
            "an estimate needs images: --data NAME, or --labelled and --unlabelled together; "
            "newfound data lists the names"
        )
    if source.subset is not None:
        raise UsageError(
            "--subset must come with --data NAME, or with a number of novel classes; got own images of "
            "nobody knows how many; leave it out"
        )
    return noted_without_number(replace(source, num_novel=UNKNOWN).load(say))


def noted_without_number(found: Dataset) -> Dataset:
    """The images with a note that does not speak of their number of novel classes."""
    split, left_out = found.split, ", some files left out" if found.skipped else ""
    known = split.task.num_known
    note = (
        f"{found.name}: {len(split.labelled):,} labelled images of {known} known class{'es' * (known > 1)}, "
        f"{len(split.unlabelled):,} unlabelled, {split.look.size} x {split.look.size} pixels{left_out}"
    )
    return replace(found, note=note)


def unnumbered(split: Split) -> Split:
    """The split without its number of novel classes."""
    return replace(split, task=Task(split.task.num_known, UNKNOWN))
