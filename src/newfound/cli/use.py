"""The verbs that use finished runs: evaluate, figures, predict, relocate."""

import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Column, Table

from newfound.cli.options import Labelled, MovedDataDir, RunFolder, Strict, Unlabelled
from newfound.cli.output import output, show_left_out
from newfound.core.errors import UsageError
from newfound.engine.files import check_writable
from newfound.experiment import Folder
from newfound.experiment.folder import check_apart
from newfound.experiment.relocate import relocate as move_images
from newfound.experiment.reopen import evaluator_of, found_classes
from newfound.report.curves import draw_curves
from newfound.report.evaluation import evaluation_tables
from newfound.report.figures import RunScores
from newfound.report.figures import figures as draw_figures
from newfound.report.saving import CURVES, MAPS, check_figures
from newfound.review.predict import predict as predict_images
from newfound.review.review import Review


def evaluate(run: RunFolder, data_dir: MovedDataDir = None) -> None:
    """Print every number of both protocols for a finished run."""
    console = output()
    evaluator, names, head = evaluator_of(Folder(run), data_dir, console.print)
    for table in evaluation_tables(evaluator(head), names[evaluator.method.task.num_known :]):
        console.print(table)


def figures(
    run: Annotated[Path | None, typer.Argument(help="The folder of a run.")] = None,
    *,
    compare: Annotated[
        tuple[Path, Path] | None, typer.Option(help="Two runs to draw side by side.", metavar="RUN_A RUN_B")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Where to write; by default RUN/figures.")] = None,
    data_dir: MovedDataDir = None,
) -> None:
    """Draw the paper's figures, t-SNE of the joint logits and confusion matrices, and the run's curves."""
    if (run is None) == (compare is None):
        raise UsageError(
            f"figures needs a run folder, or --compare RUN_A RUN_B; got {'both' if run else 'neither'}"
        )
    runs = [run] if run else list(compare or ())
    target = out or (runs[-1] / "figures" if not compare else Path("figures"))
    for folder in runs:
        check_apart(target, Folder(folder).source())
    _check_folder(target, new=compare is not None)
    if out is not None:
        check_figures(out)
    scores = titled([run_scores(folder, data_dir) for folder in runs], runs)
    if len({tuple(run.class_names) for run in scores}) > 1:
        raise UsageError(
            f"runs drawn side by side must be on the same classes; {runs[0]} and {runs[1]} are not; "
            "draw each alone"
        )
    drawn = draw_figures(scores, target)
    if not compare:
        drawn += draw_run_curves(runs[0], target)
    for path in drawn:
        print(path)
    if any(each.found for each in scores):
        print(
            "left out: the confusion matrices, which need true classes, and nobody knows those of own images"
        )


def _check_folder(target: Path, new: bool) -> None:
    """Figures of one run are drawn anew; those of a comparison belong to no run."""
    if target.is_file():
        raise UsageError(f"--out must be a folder; got the file {target}; choose another name")
    if new and target.is_dir() and any(target.iterdir()):
        raise UsageError(
            f"{target} must be a new folder; it holds {min(target.iterdir()).name}; choose another --out"
        )
    check_writable(target / f"{MAPS}.png")


def titled(scores: list[RunScores], runs: list[Path]) -> list[RunScores]:
    """Two runs of one method are told apart by their folders."""
    if len({run.title for run in scores}) == len(scores):
        return scores
    return [replace(run, title=folder.name) for run, folder in zip(scores, runs, strict=True)]


def draw_run_curves(run: Path, folder: Path) -> list[Path]:
    """Draw how a run went, and list the file; none where it had no epochs of its own, as k-means."""
    lines = Folder(run).read_metrics()
    if not lines:
        return []
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{CURVES}.png"
    draw_curves(lines, path)
    return [path]


def run_scores(run: Path, data_dir: str | None = None) -> RunScores:
    """What a run says of the test images, as the figures want it; of its own where nobody knows the truth."""
    folder, say = Folder(run), output().print
    title, found = folder.recipe().method, not folder.source().truth_is_known
    if found:
        scores, labels, names, num_known = found_classes(folder, data_dir, say)
        novel = scores[:, num_known:]
    else:
        evaluator, names, head = evaluator_of(folder, data_dir, say)
        scores, novel = (each[head] for each in evaluator.test_scores())
        labels, num_known = evaluator.truth.test_labels, evaluator.method.task.num_known
    joint, apart, classes = (value.cpu().numpy() for value in (scores, novel, labels))
    return RunScores(title, joint, apart, classes, names, num_known, found)


def predict(
    run: RunFolder,
    images: Annotated[Path, typer.Argument(help="New images: a folder, a CSV, a list or one file.")],
    *,
    out: Annotated[
        Path | None, typer.Option(help="The CSV to write; by default RUN/predictions.csv.")
    ] = None,
    strict: Strict = False,
) -> None:
    """Say which class, known or novel, each new image belongs to."""
    target = out or run / "predictions.csv"
    _check_run_first(run, images)
    _check_new_csv(target)
    check_apart(target, Folder(run).source())
    console = output()
    sizes, left_out = predict_images(Review.open(run), images, target, strict, say=console.print)
    show_left_out(console, left_out)
    console.print(sizes_table(sizes))
    print(f"written: {target}")


def _check_run_first(run: Path, images: Path) -> None:
    if Folder(images).config.exists() and not Folder(run).config.exists():
        raise UsageError(
            f"predict takes the run first and then the images; got the images {run} first; "
            f"write {shlex.join(['newfound', 'predict', str(images), str(run)])}"
        )
    Folder(run).read()


def _check_new_csv(path: Path) -> None:
    if path.suffix != ".csv":
        raise UsageError(f"--out must be a .csv file; got {path}; for example --out predictions.csv")
    if path.exists():
        raise UsageError(
            f"predictions are written to a new file; {path} is there already; move it away, or choose "
            "another name with --out"
        )
    check_writable(path)


def relocate(run: RunFolder, *, labelled: Labelled = None, unlabelled: Unlabelled = None) -> None:
    """Tell a run where its images are, if they moved."""
    if labelled is None and unlabelled is None:
        raise UsageError(
            "relocate needs a new place: --labelled, --unlabelled or both; got neither; give one"
        )
    folder = Folder(run)
    move_images(folder, labelled, unlabelled, output().print)
    print(f"{run} finds its images again; newfound report {folder.quoted} draws its page anew")


def sizes_table(sizes: Mapping[str, int]) -> Table:
    """Class → images, of the classes that have some."""
    table = Table("class", Column("images", justify="right"), box=box.SIMPLE_HEAD)
    for name, size in sizes.items():
        if size:
            table.add_row(name, f"{size:,}")
    return table
