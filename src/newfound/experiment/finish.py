"""What a trained run leaves behind: results.json and assignments.csv."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from newfound.core.learner import Method
from newfound.core.registry import method_entry, recipe_for
from newfound.engine.device import hardware
from newfound.engine.files import write_json, write_text
from newfound.experiment.provenance import commit, peak_memory, versions
from newfound.experiment.run import Run
from newfound.metrics.report import warnings_for


def finish(run: Run, method: Method) -> dict[str, Any]:
    """Evaluate where truth is known, write results.json and assignments.csv, and return the results."""
    scores = run.viewer(method).over(run.split.unlabelled, method.scores, axis=1)[run.best_head]
    names = cluster_names(run.split.task.num_novel)
    novel = scores[:, run.split.task.num_known :]
    clusters = write_assignments(run.folder.assignments, run.split.unlabelled.names, novel, names)
    sizes = clusters.bincount(minlength=len(names)).tolist()
    results = describe(run) | {"cluster_sizes": sizes, "warnings": warnings_for(sizes, names)}
    evaluator = run.evaluator(method)
    if evaluator is not None:
        results |= evaluator(run.best_head)
    write_json(run.folder.results, results)
    return results


def describe(run: Run) -> dict[str, Any]:
    """Everything about a run but its scores."""
    recipe, source = run.recipe, run.folder.source()
    return {
        "method": recipe.method,
        "recipe": recipe_name(run),
        "benchmark": source.name,
        "subset": source.subset,
        "seed": recipe.run.seed,
        "config": recipe.flat(),
        "commit": commit(),
        "versions": versions(),
        "hardware": hardware(run.device),
        "execution": {"precision": str(run.precision).removeprefix("torch."), "mode": run.modes},
        "timing": run.timing,
        "peak_memory_gib": round(peak_memory(run.device), 3),
        "best_head": run.best_head,
        "curves": curves(run.log.lines),
    }


def recipe_name(run: Run) -> str:
    """`published` where nothing differs from the paper's values, `newfound` from ours, `default`, or `custom`."""
    recipe, benchmark = run.recipe, run.folder.source().name
    entry, usual = method_entry(recipe.method), recipe_for(recipe.method, benchmark)
    if (recipe.config, recipe.train) != (usual.config, usual.train):
        return "custom"
    return entry.values_for(benchmark)[0]


def curves(lines: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The evaluated epochs of each stage, or all of them where none was evaluated."""
    stages: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        point = {key: line[key] for key in ("epoch", "lr", "losses", "scores")}
        stages.setdefault(line["stage"], []).append(point)
    return {
        stage: [point for point in points if point["scores"]] or points for stage, points in stages.items()
    }


def cluster_names(num_novel: int) -> list[str]:
    """Names for classes that nobody has named."""
    return [f"novel-{index + 1}" for index in range(num_novel)]


def write_assignments(path: Path, images: Sequence[str], scores: Tensor, names: Sequence[str]) -> Tensor:
    """A CSV line for each image: image, class, confidence; returns the class of each image, (n,)."""
    confidences, classes = (value.cpu() for value in scores.softmax(-1).max(-1))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["image", "class", "confidence"])
    for image, index, confidence in zip(images, classes.tolist(), confidences.tolist(), strict=True):
        writer.writerow([image, names[index], f"{confidence:.4f}"])
    write_text(path, out.getvalue())
    return classes
