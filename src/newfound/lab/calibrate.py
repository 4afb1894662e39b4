"""Choose settings without novel labels: try them on known classes that are held out as if novel."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import fmean, stdev
from typing import Literal

from rich import box
from rich.table import Table

import newfound
from newfound.core.errors import RunError, UsageError
from newfound.core.registry import recipe_for
from newfound.core.settings import Recipe
from newfound.core.source import PileKind
from newfound.data.dataset import Dataset
from newfound.engine.device import resolve_device
from newfound.lab.batch import Job
from newfound.lab.recorded import ACC, Measured, score
from newfound.metrics.report import Record
from newfound.run.folder import Folder
from newfound.run.models import Results, Settings, Versioned
from newfound.run.provenance import provenance

MIXED_ACC = "generalised.train.all"
"""The accuracy that counts if the pile is mixed."""


class Outcome(Record):
    """What one combination of settings reached.

    Accuracies are fractions: task-aware, or generalised over all images if the pile is mixed.
    """

    settings: Settings
    acc: list[float | None]
    """One for each seed; None if the run failed."""
    mean: float | None = None
    """None if any run failed."""
    std: float | None = None
    seconds: float | None = None
    """The mean time of discovery."""


class CalibrationRecord(Versioned):
    """What a calibration tried and found."""

    record: Literal["calibration"] = "calibration"
    newfound: str
    method: str
    benchmark: str
    pile: PileKind = "novel"
    subset: int | None = None
    held_out: list[str]
    """The known classes that stood in for novel ones."""
    config: Settings
    seeds: list[int]
    candidates: list[Outcome]
    chosen: Settings
    commit: str
    versions: dict[str, str]
    hardware: str
    seconds: float


@dataclass(frozen=True)
class Candidate:
    """One combination of the settings to try."""

    settings: Settings
    recipes: Sequence[Recipe]
    """One for each seed."""

    @property
    def name(self) -> str:
        return ",".join(f"{key}={value}" for key, value in self.settings.items())


def candidates_of(
    method: str, benchmark: str, settings: Mapping[str, str], seeds: int
) -> tuple[Recipe, list[Candidate]]:
    """The recipe with the settings of one value, and all combinations of those with several."""
    fixed = {key: value for key, value in settings.items() if "," not in value}
    tried = {key: value.split(",") for key, value in settings.items() if key not in fixed}
    base = recipe_for(method, benchmark, fixed)
    if "seed" in settings or not tried:
        raise UsageError(
            "Give a setting several values to try, for example lr=0.03,0.1. Set the seeds with --seeds."
        )
    found: dict[str, Candidate] = {}
    for combination in product(*tried.values()):
        chosen = fixed | dict(zip(tried, combination, strict=True))
        recipes = [recipe_for(method, benchmark, chosen | {"seed": seed}) for seed in range(seeds)]
        flat = recipes[0].flat()
        candidate = Candidate({key: flat[key] for key in tried}, recipes)
        found[candidate.name] = candidate
    return base, list(found.values())


def jobs_of(candidates: Sequence[Candidate], place: Path) -> list[Job]:
    """The runs of all candidates, each in its own folder."""
    return [
        Job(
            f"{candidate.name} seed {seed}",
            Folder(place / f"{candidate.name.replace('/', '_')}-seed{seed}", place.parent / "pretrained"),
            recipe,
        )
        for candidate in candidates
        for seed, recipe in enumerate(candidate.recipes)
    ]


def record_of(
    base: Recipe, data: Dataset, candidates: Sequence[Candidate], results: Sequence[Results | None]
) -> CalibrationRecord:
    """The record of a calibration, from the results of its runs in the order of `jobs_of`."""
    seeds = len(candidates[0].recipes)
    tried = [
        _outcome(candidate, results[place * seeds : (place + 1) * seeds])
        for place, candidate in enumerate(candidates)
    ]
    finished = [(outcome.mean, outcome) for outcome in tried if outcome.mean is not None]
    if not finished:
        raise RunError("No candidate finished with every seed.")
    runs = [result for result in results if result is not None]
    return CalibrationRecord(
        newfound=newfound.__version__,
        method=base.method,
        benchmark=runs[0].benchmark,
        pile=runs[0].pile,
        subset=runs[0].subset,
        held_out=list(data.class_names[data.num_known :]),
        config=base.flat(),
        seeds=list(range(seeds)),
        candidates=tried,
        chosen=max(finished, key=lambda pair: pair[0])[1].settings,
        **provenance(resolve_device(base.run.device)).model_dump()
        | {"commit": " and ".join(dict.fromkeys(run.commit for run in runs))},
        seconds=sum(run.seconds for run in runs),
    )


def _outcome(candidate: Candidate, results: Sequence[Results | None]) -> Outcome:
    """The outcome of a candidate, from the results of its seeds."""
    runs = [result for result in results if result is not None]
    acc = [
        None if result is None else score(result, MIXED_ACC if result.generalised else ACC)
        for result in results
    ]
    known = [each for each in acc if each is not None]
    complete = len(known) == len(acc)
    seconds = [run.discovery.seconds for run in runs]
    return Outcome(
        settings=candidate.settings,
        acc=acc,
        mean=fmean(known) if complete else None,
        std=stdev(known) if complete and len(known) > 1 else None,
        seconds=fmean(seconds) if seconds else None,
    )


def table_of(found: CalibrationRecord) -> Table:
    """The table of a calibration, with a row for each candidate."""
    part = "" if found.subset is None else f", at most {found.subset} images of each class"
    kind = "generalised" if found.pile == "mixed" else "task-aware"
    title = (
        f"{found.method} on {found.benchmark}{part}; known classes {', '.join(found.held_out)} held out "
        f"as if novel; {kind} ACC in % on the unlabelled training images, mean ± std over n seeds; "
        "seconds of discovery"
    )
    table = Table(*found.chosen, title=title, box=box.SIMPLE_HEAD)
    for heading in (f"{kind} ACC", "seconds", ""):
        table.add_column(heading, justify="right")
    highest = next(each for each in found.candidates if each.settings == found.chosen)
    for each in found.candidates:
        acc, seconds = "failed", "" if each.seconds is None else f"{each.seconds:.1f}"
        if each.mean is not None:
            acc = str(Measured(tuple(100 * value for value in each.acc if value is not None)))
        table.add_row(*map(str, each.settings.values()), acc, seconds, verdict(each, highest))
    return table


def verdict(each: Outcome, highest: Outcome) -> str:
    """Whether a candidate has the highest mean, or one within the spread of the seeds below it."""
    if each.mean is None or highest.mean is None:
        return ""
    if each.mean == highest.mean:
        return "highest"
    if each.std is None or highest.std is None:
        return "one seed is not enough"
    return "within the spread" if highest.mean - each.mean < max(highest.std, each.std) else ""
