"""Settings chosen without a novel label: tried on known classes that play the novel ones."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table

import newfound
from newfound.cli.options import Data, DataDir, Labelled, Method, Size, StopAfter, Strict, Subset, Unlabelled
from newfound.cli.output import output, show_left_out
from newfound.cli.running import Job, results_of_all
from newfound.core.config import Recipe, parse_overrides
from newfound.core.errors import RunError, UsageError
from newfound.core.registry import recipe_for
from newfound.data.holdout import hold_out, usual_held_out
from newfound.data.images import Dataset
from newfound.engine.device import resolve_device
from newfound.engine.files import check_writable, write_json
from newfound.experiment import Folder, Source
from newfound.experiment.check import check_run
from newfound.experiment.provenance import provenance
from newfound.report.comparison import AWARE
from newfound.report.recorded import Measured, over

KIND = "calibration"
Results = Sequence[dict[str, Any] | None]


@dataclass(frozen=True)
class Candidate:
    """One combination of the settings that are tried, and the runs that try it."""

    settings: Mapping[str, Any]
    recipes: Sequence[Recipe]
    """One for each seed."""

    @property
    def name(self) -> str:
        return ",".join(f"{key}={value}" for key, value in self.settings.items())

    def jobs(self, place: Path) -> list[Job]:
        """Its runs, each in a folder of its own; a path among the settings does not make more of them."""
        folder = self.name.replace("/", "_")
        return [
            Job(f"{self.name} seed {seed}", Folder(place / f"{folder}-seed{seed}"), recipe)
            for seed, recipe in enumerate(self.recipes)
        ]


def calibrate(
    method: Method,
    settings: Annotated[
        list[str] | None,
        typer.Argument(help="Settings as key=value; commas part values to try: tau=0.1,0.2 epochs=50."),
    ] = None,
    *,
    data: Data = None,
    data_dir: DataDir = None,
    subset: Subset = None,
    labelled: Labelled = None,
    unlabelled: Unlabelled = None,
    size: Size = None,
    strict: Strict = False,
    held_out: Annotated[
        int | None,
        typer.Option("--hold-out", help="How many known classes play the novel ones; else two fifths."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds, from 0 on.")] = 3,
    stop_after: StopAfter = None,
    out: Annotated[Path, typer.Option(help="Where the runs are kept.")] = Path("runs/calibrate"),
    record: Annotated[Path | None, typer.Option(help="A JSON file for what was tried and found.")] = None,
) -> None:
    """Try settings on known classes held out as if they were novel, whose labels may be used to judge."""
    console, source = output(), Source(data, data_dir, subset, labelled, unlabelled, None, size, strict)
    base, candidates = _asked(method, source.name, parse_overrides(settings or []), seeds)
    _check_replaceable(record, method, candidates)
    whole = source.before_hold_out()
    number = usual_held_out(whole.split.task.num_known) if held_out is None else held_out
    dataset, source = hold_out(whole, number), replace(source, held_out=number)
    console.print(dataset.note)
    show_left_out(console, dataset.skipped)
    jobs = [job for each in candidates for job in each.jobs(out / source.name / method)]
    for job in jobs:
        job.folder.check(source, job.recipe, resume=True)
    for candidate in candidates:
        check_run(candidate.recipes[0], dataset.split)
    results = results_of_all(console, source, dataset, jobs, stop_after)
    found = _record(base, source, dataset, candidates, results)
    console.print(_table(found))
    if record is not None:
        write_json(record, found)
        console.print(f"written: {record}")


def _asked(
    method: str, benchmark: str, settings: Mapping[str, str], seeds: int
) -> tuple[Recipe, list[Candidate]]:
    """The recipe with what is simply set, and every combination of what is to be tried."""
    if "seed" in settings:
        raise UsageError(
            f"--seeds must say how many seeds there are; got seed={settings['seed']} too; leave it out"
        )
    fixed = {key: value for key, value in settings.items() if "," not in value}
    tried = {key: value.split(",") for key, value in settings.items() if key not in fixed}
    _check_values(tried)
    base = recipe_for(method, benchmark, fixed)
    if not tried:
        raise UsageError(
            "a setting must have values to try; got none with commas between them; "
            f"for example lr=0.03,0.1; newfound methods {method} lists the settings"
        )
    found: dict[str, Candidate] = {}
    for values in product(*tried.values()):
        chosen = fixed | dict(zip(tried, values, strict=True))
        recipes = [recipe_for(method, benchmark, chosen | {"seed": seed}) for seed in range(seeds)]
        flat = recipes[0].flat()
        candidate = Candidate({key: flat[key] for key in tried}, recipes)
        found[candidate.name] = candidate
    return base, list(found.values())


def _check_values(tried: Mapping[str, Sequence[str]]) -> None:
    for key, values in tried.items():
        if key.rpartition(".")[2] == "lr_falls":
            raise UsageError(
                f"values to try must have no commas of their own, as those of {key} do; got "
                f"{','.join(values)}; give one fall, or compare schedules with newfound discover"
            )
        if len(set(values)) < len(values):
            raise UsageError(
                f"values to try must differ; got {key}={','.join(values)}; name each of them once"
            )


def _check_replaceable(path: Path | None, method: str, candidates: Sequence[Candidate]) -> None:
    """Refuse to write over anything but the record of the same call."""
    if path is None:
        return
    check_writable(path)
    if not path.exists():
        return
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        tried = [each["settings"] for each in found["candidates"]]
        asked = found["record"], found["method"], tried, len(found["seeds"])
    except (OSError, ValueError, KeyError, TypeError):
        asked = None
    if asked != (KIND, method, [dict(each.settings) for each in candidates], len(candidates[0].recipes)):
        raise UsageError(
            f"--record must be a new file, or that of the same calibration; {path} is something else; "
            "choose another name"
        )


def _record(
    base: Recipe, source: Source, dataset: Dataset, candidates: Sequence[Candidate], results: Results
) -> dict[str, Any]:
    """What was tried and found, in plain numbers; accuracies are shares."""
    seeds = len(candidates[0].recipes)
    tried = [
        _outcome(candidate, results[place * seeds : (place + 1) * seeds])
        for place, candidate in enumerate(candidates)
    ]
    finished = [outcome for outcome in tried if outcome["mean"] is not None]
    if not finished:
        raise RunError("a candidate must finish with every seed; none did; see above for each")
    runs = [result for result in results if result is not None]
    return {
        "record": KIND,
        "newfound": newfound.__version__,
        "method": base.method,
        "benchmark": source.name,
        "subset": source.subset,
        "held_out": dataset.class_names[dataset.split.task.num_known :],
        "config": base.flat(),
        "seeds": list(range(seeds)),
        "candidates": tried,
        "chosen": max(finished, key=lambda outcome: outcome["mean"])["settings"],
        **provenance(resolve_device(base.run.device)),
        "commit": " and ".join(dict.fromkeys(run["commit"] for run in runs)),
        "seconds": sum(stage["seconds"] for run in runs for stage in run["timing"].values()),
    }


def _outcome(candidate: Candidate, results: Results) -> dict[str, Any]:
    """The accuracy of each seed; a mean only where none failed."""
    runs = [result for result in results if result is not None]
    measured = over(runs, AWARE, scale=1.0) if len(runs) == len(results) else None
    seconds = [run["timing"].get("discover", {"seconds": 0.0})["seconds"] for run in runs]
    return {
        "settings": dict(candidate.settings),
        "acc": [result and result["task_aware"]["train"]["acc"]["mean"] for result in results],
        "mean": measured and measured.mean,
        "std": measured and measured.std,
        "seconds": fmean(seconds) if seconds else None,
    }


def _table(found: Mapping[str, Any]) -> Table:
    """A row for each candidate, as given, the best marked."""
    what, seeds = found["benchmark"], len(found["seeds"])
    if found["subset"] is not None:
        what += f", at most {found['subset']} images of each class"
    title = (
        f"{found['method']} on {what}; known classes {', '.join(found['held_out'])} held out as if novel; "
        "task-aware ACC in % on their unlabelled training images, mean ± std over n seeds; "
        "seconds of discovery"
    )
    table = Table(*found["chosen"], title=title, box=box.SIMPLE_HEAD)
    means = [each["mean"] for each in found["candidates"] if each["mean"] is not None]
    highest = max(means)
    mark = "best" if means.count(highest) == 1 else "tied"
    for heading in ("task-aware ACC", "seconds", ""):
        table.add_column(heading, justify="right")
    for each in found["candidates"]:
        acc, seconds = "failed", "" if each["seconds"] is None else f"{each['seconds']:.1f}"
        if each["mean"] is not None:
            std = None if each["std"] is None else 100 * each["std"]
            acc = str(Measured(100 * each["mean"], std, seeds))
        best = mark if each["mean"] == highest else ""
        table.add_row(*map(str, each["settings"].values()), acc, seconds, best)
    return table
