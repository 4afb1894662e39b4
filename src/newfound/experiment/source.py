"""Where a run's images come from, in a form that its config.json can hold."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from newfound.core.errors import UsageError
from newfound.core.records import Say
from newfound.data.assemble import novel_names
from newfound.data.benchmarks import load_benchmark
from newfound.data.holdout import hold_out
from newfound.data.images import Dataset
from newfound.data.own import load_own

OWN_ONLY = ("labelled", "unlabelled", "num_novel", "size")


@dataclass(frozen=True)
class Source:
    """A named benchmark, or a person's own labelled and unlabelled images."""

    benchmark: str | None = None
    data_dir: str | None = None
    subset: int | None = None
    labelled: str | None = None
    unlabelled: str | None = None
    num_novel: int | None = None
    size: int | None = None
    strict: bool = False
    arrays: str | None = None
    """The fingerprint of a data set that was made in Python and cannot be loaded again from here."""
    estimated: str | None = None
    """The algorithm that num_novel comes from, where nobody gave it."""
    held_out: int | None = None
    """How many known classes play the novel ones, all others being dropped."""

    def __post_init__(self) -> None:
        """Own images are found again from wherever a run is looked at."""
        for key in ("labelled", "unlabelled"):
            if given := getattr(self, key):
                object.__setattr__(self, key, os.path.abspath(given))

    @property
    def name(self) -> str:
        """What the registry's published values and ours are looked up by."""
        return self.benchmark or "own"

    @property
    def truth_is_known(self) -> bool:
        """Whether anybody knows the classes of its unlabelled images."""
        return self.benchmark is not None or self.held_out is not None

    @classmethod
    def of(cls, dataset: Dataset) -> "Source":
        """The source of a data set at hand: the files it was loaded from, if there are any."""
        if not isinstance(dataset, Dataset):
            raise UsageError(
                f"images must be given as a data set; got {type(dataset).__name__}; make one of images and "
                "labels with newfound.from_arrays"
            )
        return cls(**dataset.origin) if dataset.origin else cls(arrays=dataset.fingerprint())

    def estimated_by(self, found: Mapping[str, Any]) -> "Source":
        """The same with the number of novel classes that an estimate found."""
        return replace(self, num_novel=found["num_novel"], estimated=found["settings"]["estimate.algorithm"])

    def load(self, say: Say = lambda line: None) -> Dataset:
        """Read the images."""
        self.check_loadable()
        if self.held_out is not None:
            return hold_out(self.before_hold_out(say), self.held_out)
        if self.benchmark:
            foreign = [key for key in OWN_ONLY if getattr(self, key) is not None]
            if foreign and not (self.estimated and foreign == ["num_novel"]):
                raise UsageError(
                    f"--data NAME must come without the options of own images; got {_options(foreign)} too; "
                    "a benchmark knows its own classes and sizes"
                )
            found = load_benchmark(self.benchmark, self.data_dir, self.subset)
            return found if self.num_novel is None else looking_for(self.num_novel, found)
        if not (self.labelled and self.unlabelled and self.num_novel is not None):
            raise UsageError(
                "a run needs images: --data NAME, or --labelled and --unlabelled, with --num-novel if it is "
                "known; newfound data lists the names"
            )
        if self.data_dir is not None:
            raise UsageError("--data-dir must come with --data NAME; got own images; leave it out")
        return load_own(
            self.labelled, self.unlabelled, self.num_novel, self.size, self.strict, self.subset, say
        )

    def before_hold_out(self, say: Say = lambda line: None) -> Dataset:
        """The images that known classes are held out of; own images need no number of novel classes here."""
        self.check_loadable()
        if not (self.benchmark or (self.labelled and self.unlabelled)):
            raise UsageError(
                "holding classes out needs images: --data NAME, or --labelled and --unlabelled together; "
                "newfound data lists the names"
            )
        # Own images must come with a number; it is dropped with the pile that it is about.
        return replace(self, held_out=None, num_novel=None if self.benchmark else 1).load(say)

    def check_loadable(self) -> None:
        """Refuse images that are in no file."""
        if self.arrays:
            raise UsageError(
                "this needs the images of the run, which were given in Python; they are in no file; "
                "use newfound predict for new ones"
            )

    def relative(self, paths: Sequence[str]) -> list[str]:
        """Paths without the folder that they were given in, so that they stay the same when it moves.

        Those that a list names outside its own folder lose the folder that holds them all.
        """
        roots = []
        for given in filter(None, (self.unlabelled, self.labelled)):
            folder = os.path.join(given, "")
            if not any(path.startswith(folder) for path in paths):  # a table or list, or holds none of them
                folder = os.path.join(os.path.dirname(given), "")
            roots.append(folder)
        if roots and (elsewhere := [path for path in paths if not path.startswith(tuple(roots))]):
            roots.append(os.path.join(os.path.commonpath([os.path.dirname(path) for path in elsewhere]), ""))
        return [path.removeprefix(next(filter(path.startswith, roots), "")) for path in paths]

    def as_dict(self) -> dict[str, Any]:
        """Only what was given."""
        return {key: value for key, value in asdict(self).items() if value not in (None, False)}


def looking_for(num_novel: int, dataset: Dataset) -> Dataset:
    """The images with another number of classes to be found: of a benchmark, than there are."""
    split, names = dataset.split, dataset.class_names
    known = names[: split.task.num_known]
    return replace(
        dataset,
        split=replace(split, task=replace(split.task, num_novel=num_novel)),
        class_names=names if dataset.truth else (*known, *novel_names(known, num_novel)),
        note=f"{dataset.note}; as estimated, {num_novel} {'is' if num_novel == 1 else 'are'} looked for",
        origin={},
    )


def _options(keys: list[str]) -> str:
    """The names that the command line gives them."""
    return ", ".join("--" + key.replace("_", "-") for key in keys)
