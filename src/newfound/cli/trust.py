"""The verb that tells how far a run can be trusted."""

from dataclasses import replace
from typing import Annotated

import typer

from newfound.cli.options import MovedDataDir, RunFolder, StopAfter
from newfound.cli.output import output
from newfound.cli.running import Job, check_jobs, results_of_all
from newfound.core.errors import RunError, UsageError
from newfound.data.holdout import hold_out, usual_held_out
from newfound.engine.checkpoint import Checkpoint
from newfound.experiment import Folder, Source
from newfound.experiment.check import check_run
from newfound.experiment.reopen import images_of
from newfound.experiment.trust import Trust


def trust(
    run: RunFolder,
    *,
    held_out: Annotated[
        int | None, typer.Option("--hold-out", help="How many known classes to hide; else two fifths.")
    ] = None,
    data_dir: MovedDataDir = None,
    stop_after: StopAfter = None,
) -> None:
    """Hide some known classes, look for them as the run looked for the new ones, and say how well it went."""
    folder, console = Folder(run), output()
    folder.read()
    folder.read_results()
    source, recipe = _source(folder, data_dir, held_out), folder.recipe()
    job = Job("trust", folder.trust, replace(recipe, run=replace(recipe.run, pretrained="")))
    check_jobs([job])
    whole = images_of(folder, data_dir, Checkpoint.load(folder.checkpoint), console.print)
    number = usual_held_out(whole.split.task.num_known) if source.held_out is None else source.held_out
    dataset, source = hold_out(whole, number), replace(source, held_out=number)
    console.print(dataset.note)
    if recipe.run.pretrained:
        console.print("the network is trained anew: weights that were given may have seen the hidden classes")
    folder.trust.check(source, job.recipe, resume=True)
    check_run(job.recipe, dataset.split)
    (results,) = results_of_all(console, source, dataset, [job], stop_after)
    if results is None:
        raise RunError("the run with hidden classes must finish; it did not; see above")
    console.print(str(Trust.of(folder)))
    console.print(f"newfound report {folder.quoted} shows it on its page")


def _source(folder: Folder, data_dir: str | None, held_out: int | None) -> Source:
    """The images of the trial, of which a number of known classes is hidden; one that has begun goes on."""
    source = folder.source()
    if source.held_out is not None:
        raise UsageError(
            f"trust must be asked of a run that looks for new classes; {folder.path} looks for known ones; "
            "name the run that it belongs to"
        )
    if not folder.trust.config.exists():
        where = data_dir or source.data_dir
        return replace(source, data_dir=where, num_novel=None, estimated=None, held_out=held_out)
    begun = folder.trust.source()
    if held_out not in (None, begun.held_out):
        raise UsageError(
            f"--hold-out must be as in the trial that is there; got {held_out}, and {folder.trust.path} "
            f"hides {begun.held_out}; leave it out, or move that folder away"
        )
    return begun
