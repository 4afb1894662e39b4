"""The verbs that use finished runs: evaluate, figures, predict."""

from pathlib import Path
from typing import Annotated

import typer

from newfound.cli.output import output
from newfound.core.errors import UsageError
from newfound.experiment import Folder
from newfound.experiment.reopen import evaluator_of
from newfound.experiment.reopen import predict as predict_images
from newfound.report.evaluation import evaluation_tables
from newfound.report.figures import RunScores
from newfound.report.figures import figures as draw_figures

RunFolder = Annotated[Path, typer.Argument(help="The folder of a run.")]
DataDir = Annotated[str | None, typer.Option(help="Where the benchmark's files are now, if they moved.")]


def evaluate(run: RunFolder, data_dir: DataDir = None) -> None:
    """Print every number of both protocols for a finished run."""
    evaluator, names, head = evaluator_of(Folder(run), data_dir)
    console = output()
    for table in evaluation_tables(evaluator(head), names[evaluator.method.task.num_known :]):
        console.print(table)


def figures(
    run: Annotated[Path | None, typer.Argument(help="The folder of a run.")] = None,
    *,
    compare: Annotated[
        tuple[Path, Path] | None, typer.Option(help="Two runs to draw side by side.", metavar="RUN_A RUN_B")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Where to write; by default RUN/figures.")] = None,
    data_dir: DataDir = None,
) -> None:
    """Draw the paper's figures: t-SNE of the joint logits and the confusion matrices, as PNG and PDF."""
    if (run is None) == (compare is None):
        raise UsageError(
            f"figures needs a run folder, or --compare RUN_A RUN_B; got {'both' if run else 'neither'}"
        )
    runs = [run] if run else list(compare or ())
    target = out or (runs[-1] / "figures" if not compare else Path("figures"))
    for path in draw_figures([run_scores(folder, data_dir) for folder in runs], target):
        print(path)


def run_scores(run: Path, data_dir: str | None = None) -> RunScores:
    """What a run says of the test images, as the figures want it."""
    folder = Folder(run)
    evaluator, names, head = evaluator_of(folder, data_dir)
    scores = evaluator.test_scores()[head].cpu().numpy()
    labels = evaluator.truth.test_labels.cpu().numpy()
    return RunScores(folder.recipe().method, scores, labels, names, evaluator.method.task.num_known)


def predict(
    run: RunFolder,
    images: Annotated[Path, typer.Argument(help="New images: a folder, a CSV, a list or one file.")],
    *,
    out: Annotated[
        Path | None, typer.Option(help="The CSV to write; by default RUN/predictions.csv.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Fail on a file that cannot be decoded.")] = False,
) -> None:
    """Say which class, known or novel, each new image belongs to."""
    target = out or run / "predictions.csv"
    for line in predict_images(Folder(run), images, target, strict):
        print(f"left out: {line}")
    print(f"written: {target}")
