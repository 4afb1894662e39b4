"""What a calibration tried and found, as a record."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import newfound
from newfound.core.config import Recipe
from newfound.core.errors import RunError, UsageError
from newfound.data.images import Dataset
from newfound.engine.device import resolve_device
from newfound.engine.files import check_writable
from newfound.experiment.calibration import Candidate
from newfound.experiment.provenance import provenance
from newfound.experiment.source import Source

KIND = "calibration"
Results = Sequence[dict[str, Any] | None]
"""Of each candidate with each seed; None where a run failed."""


def check_replaceable(path: Path, method: str, candidates: Sequence[Candidate]) -> None:
    """Refuse to write over anything but the record of the same call."""
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


def calibration_record(
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
    acc, whole = [_acc(run) for run in runs], len(runs) == len(results)
    seconds = [run["timing"].get("discover", {"seconds": 0.0})["seconds"] for run in runs]
    return {
        "settings": dict(candidate.settings),
        "acc": [None if result is None else _acc(result) for result in results],
        "mean": fmean(acc) if whole else None,
        "std": stdev(acc) if whole and len(acc) > 1 else None,
        "seconds": fmean(seconds) if seconds else None,
    }


def _acc(result: Mapping[str, Any]) -> float:
    """On the unlabelled training images, told which are novel; the mean over heads."""
    acc: float = result["task_aware"]["train"]["acc"]["mean"]
    return acc
