"""The verb that tells how far a run can be trusted."""

from dataclasses import replace
from typing import Annotated

import typer

from newfound.cli.output import output
from newfound.cli.running import Job, results_of_all
from newfound.cli.stopping import duration
from newfound.cli.train import StopAfter
from newfound.cli.use import DataDir, RunFolder
from newfound.core.errors import RunError, UsageError
from newfound.data.holdout import hold_out, usual_held_out
from newfound.experiment import Folder
from newfound.experiment.check import check_run
from newfound.experiment.trust import Trust


def trust(
    run: RunFolder,
    *,
    held_out: Annotated[
        int | None, typer.Option("--hold-out", help="How many known classes to hide; else two fifths.")
    ] = None,
    data_dir: DataDir = None,
    stop_after: StopAfter = None,
) -> None:
    """Hide some known classes, look for them as the run looked for the new ones, and say how well it went."""
    folder, console = Folder(run), output()
    folder.read()
    folder.read_results()
    source, recipe = folder.source(), folder.recipe()
    limit = None if stop_after is None else duration(stop_after)
    source = replace(source, data_dir=data_dir or source.data_dir, num_novel=None, estimated=None)
    whole = source.before_hold_out()
    number = _number(folder, held_out) or usual_held_out(whole.split.task.num_known)
    dataset, source = hold_out(whole, number), replace(source, held_out=number)
    console.print(dataset.note)
    folder.trust.check(source, recipe, resume=True)
    check_run(recipe, dataset.split)
    (results,) = results_of_all(console, source, dataset, [Job("trust", folder.trust, recipe)], limit)
    if results is None:
        raise RunError("the run with hidden classes must finish; it did not; see above")
    found = Trust.of(folder)
    assert found is not None
    console.print(str(found))
    console.print(f"newfound report {run} shows it on its page")


def _number(folder: Folder, asked: int | None) -> int | None:
    """Of classes to hide: as asked, or as in a trial that has begun."""
    begun = folder.trust.source().held_out if folder.trust.config.exists() else None
    if asked is not None and begun not in (None, asked):
        raise UsageError(
            f"--hold-out must be as in the trial that is there; got {asked}, and {folder.trust.path} "
            f"hides {begun}; leave it out, or move that folder away"
        )
    return asked if asked is not None else begun
