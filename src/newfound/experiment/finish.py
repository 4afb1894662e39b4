"""What a trained run leaves behind: results.json and assignments.csv."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from newfound.core.config import Overrides, Recipe
from newfound.core.learner import Method
from newfound.core.registry import method_entry, recipe_for
from newfound.engine.bank import scores_of
from newfound.engine.device import precision_name
from newfound.engine.files import write_json
from newfound.experiment.assignments import Assignments
from newfound.experiment.folder import Folder
from newfound.experiment.model import encoder_name
from newfound.experiment.pile import Pile
from newfound.experiment.provenance import provenance
from newfound.experiment.run import Run
from newfound.metrics.summary import warnings_for


def finish(run: Run, method: Method) -> tuple[dict[str, Any], Pile]:
    """Look at the pile, evaluate where truth is known, write results.json and assignments.csv.

    Returns the results and the pile. A review is of the assignments it began with, so those are kept.
    """
    scores = scores_of(method, run.viewer(method), run.split.unlabelled)
    pile = Pile.of(method, run.dataset, scores, run.best_head)
    known, novel = pile.names[: pile.num_known], pile.names[pile.num_known :]
    if run.folder.edits.exists() and run.folder.assignments.exists():
        assigned = Assignments.read(run.folder.assignments, novel)
    else:
        assigned = Assignments.of(pile)
        assigned.write(run.folder.assignments, novel)
    sizes = np.bincount(assigned.clusters, minlength=len(novel)).tolist()
    results = describe(run) | {
        "classes": {"known": list(known), "novel": list(novel)},
        "cluster_sizes": sizes,
        "warnings": warnings_for(sizes, novel),
    }
    evaluator = run.evaluator(method)
    if evaluator is not None:
        results |= evaluator(run.best_head, pile=scores[1])
    write_json(run.folder.results, results)
    run.log.close()
    return results, pile


def describe(run: Run) -> dict[str, Any]:
    """Everything about a run but its scores."""
    recipe, source, account = run.recipe, run.folder.source(), run.account.as_dict(run.device)
    return {
        "method": recipe.method,
        "recipe": recipe_name(run),
        "benchmark": source.name,
        "subset": source.subset,
        **({"held_out": source.held_out} if source.held_out else {}),
        **_estimated(run.folder),
        "seed": recipe.run.seed,
        "config": recipe.flat(),
        **provenance(run.device),
        "execution": {"precision": precision_name(run.precision), "mode": account["modes"]},
        "sessions": account["sessions"],
        "timing": account["timing"],
        **({"reused": run.account.reused} if run.account.reused else {}),
        "peak_memory_gib": account["peak_memory_gib"],
        "best_head": run.best_head,
        "curves": curves(run.log.lines),
    }


def _estimated(folder: Folder) -> dict[str, Any]:
    """The number of novel classes where it is an estimate, with what is plausible if it was made here."""
    source = folder.source()
    if source.estimated is None:
        return {}
    found: dict[str, Any] = {"num_novel": source.num_novel, "algorithm": source.estimated}
    if estimate := folder.read_estimate():
        found |= {"low": estimate["low"], "high": estimate["high"]}
    return {"estimate": found}


def recipe_name(run: Run) -> str:
    """Whose values: `published`, `newfound` (ours), `default`, `matched`, a variation or `custom`."""
    source, recipe = run.folder.source(), run.recipe
    entry = method_entry(recipe.method)
    named: dict[str, Overrides] = {
        entry.values_for(source.name)[0]: {},
        **entry.variations_for(source.name),
    }
    for name, overrides in named.items():
        if (source.subset, source.estimated, source.held_out) == (None, None, None) and _deciding(
            run, recipe_for(recipe.method, source.name, overrides)
        ) == (_deciding(run, recipe)):
            return name
    return "custom"


def _deciding(run: Run, recipe: Recipe) -> tuple[Any, ...]:
    """The settings that decide what a number means, not how it was computed."""
    given = recipe.run.weights, recipe.run.pretrained
    run_settings = recipe.run.track, *given, encoder_name(recipe, run.split.look)
    return recipe.config, recipe.train, recipe.constraints, run_settings


def curves(lines: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The evaluated epochs of each stage, or all of them where none was evaluated."""
    stages: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        point = {key: line[key] for key in ("epoch", "lr", "losses", "scores")}
        stages.setdefault(line["stage"], []).append(point)
    return {
        stage: [point for point in points if point["scores"]] or points for stage, points in stages.items()
    }
