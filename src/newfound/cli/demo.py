"""The demo on scikit-learn's digits: 0-4 are known, 5-9 are to be discovered."""

import shlex
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import numpy as np
import torch
import typer
from numpy.typing import NDArray
from rich.table import Table
from sklearn.cluster import KMeans

from newfound.cli.console import console, shown_as
from newfound.cli.progress import Progress
from newfound.cli.results import Row, results_table
from newfound.cli.runs import draw_runs
from newfound.core.errors import Hint, UsageError
from newfound.core.files import check_writable, write_record, writing
from newfound.core.registry import recipe_for
from newfound.core.source import Source
from newfound.data import load
from newfound.data.dataset import Dataset
from newfound.data.images import ImageSet
from newfound.metrics.protocols import clustering, summarise
from newfound.review.page import write_page
from newfound.review.review import Review
from newfound.run.events import duration
from newfound.run.folder import Folder
from newfound.run.models import Results, Timing
from newfound.run.provenance import peak_memory, provenance
from newfound.run.run import Run
from newfound.run.trained import Pictures

METHODS = {
    "kmeans-pixels": "k-means on raw pixels",
    "kmeans": "k-means on pretrained features",
    "uno-v2": "UNO v2",
    "iic": "IIC",
}
"""Method → its title in the demo."""
DEMO_RECORD = "kmeans-pixels/results.json"
"""The first file that a demo writes. No other run writes it, so it identifies a demo."""
RESTARTS = 20
"""Starts of k-means on raw pixels; the best one counts."""
FOLDERS = ("kmeans", "uno-v2", "kmeans-pixels", "pretrained", "tensorboard")
"""The folders that a demo writes besides the files of its run and its figures."""


def demo(
    out: Annotated[Path, typer.Option(help="The run folder.")] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="The random seed.")] = 0,
) -> None:
    """Try newfound on scanned digits: discover 5-9 knowing only 0-4, and compare four methods."""
    _check_free(out)
    # A second thread does not help with tensors this small, and the recorded numbers are from one thread.
    torch.set_num_threads(1)
    with _replacing(out) as new, shown_as(new, out):
        _run_all(new, f"newfound demo --out {shlex.quote(str(out))} --seed {seed}", seed)
    mine = Folder(out)
    drawn = draw_runs([Folder(out / "uno-v2"), mine], out / "figures")
    console().print(f"written: {mine.results}, {mine.assignments}, {len(drawn)} figures in {out}/figures")
    write_page(Review.open(out), Pictures.load(mine))
    console().print(f"Open {mine.report} to look at the classes.")
    found = mine.read_results().task_aware
    assert found is not None
    acc = 100 * (found.train.acc.best_head or 0.0)
    console().print(
        f"The page shows IIC's head of lowest loss, with a train ACC of {acc:.1f} %; the table above has the "
        "mean over the heads."
    )


def _run_all(new: Path, command: str, seed: int) -> None:
    """Run every method on the same images, in the folder `new`, and print their table."""
    data = load(Source(benchmark="digits"))
    console().print(data.note)
    records = [pixel_kmeans(data, seed)]
    write_record(new / DEMO_RECORD, records[0])
    with Progress() as progress:
        runs = []
        for method in list(METHODS)[1:]:
            track = "matched" if demo_recipe(method) == "matched" else "published"
            recipe = recipe_for(method, "digits", {"seed": seed, "track": track})
            folder = Folder(new if method == "iic" else new / method, shared=new / "pretrained")
            runs.append(Run(folder, data, recipe, command=command, watch=progress))
        seconds = sum(run.plan().seconds for run in runs)
        console().print(f"Training {len(runs)} methods takes about {duration(seconds)} in all.")
        for run in runs:
            progress.labelled(run.recipe.method)
            records.append(run.discover())
    for record in records:
        for warning in record.warnings:
            console().print(f"warning: {record.method}: {warning}")
    console().print(demo_table(records))


def demo_recipe(method: str) -> str:
    """The recipe of a method: k-means runs on the matched track, on the features the others start from."""
    return "matched" if method == "kmeans" else "newfound"


def demo_table(records: Iterable[Results]) -> Table:
    """The demo's table, with a row for each method."""
    rows = [Row(METHODS[each.method], each, each.discovery.seconds or None) for each in records]
    title = (
        "digits 5-9 found knowing 0-4; published track with our settings, k-means on the matched track;\n"
        "one run, seconds without pretraining"
    )
    return results_table(rows, title)


def pixel_kmeans(data: Dataset, seed: int) -> Results:
    """k-means on raw pixels by the task-aware protocol: a baseline without learning."""
    truth, task = data.truth, data.split.task
    assert truth is not None
    start = time.perf_counter()
    novel = truth.test_labels >= task.num_known
    model = KMeans(task.num_novel, n_init=RESTARTS, random_state=seed).fit(_pixels(data.split.unlabelled))
    predicted = model.labels_, model.predict(_pixels(truth.test)[novel.numpy()])
    seconds = time.perf_counter() - start
    train, test = (
        [clustering(torch.from_numpy(clusters).long(), classes - task.num_known, task.num_novel)]
        for clusters, classes in zip(predicted, (truth.labels, truth.test_labels[novel]), strict=True)
    )
    cpu = torch.device("cpu")
    return Results(
        method="kmeans-pixels",
        recipe="newfound",
        benchmark=data.name,
        seed=seed,
        config={"restarts": RESTARTS},
        **provenance(cpu).model_dump(),
        peak_memory_gib=round(peak_memory(cpu), 3),
        timing={"discover": Timing(seconds=seconds)},
        task_aware=summarise(0, train, test).task_aware,
    )


def _pixels(images: ImageSet) -> NDArray[np.floating]:
    pixels: NDArray[np.floating] = images.take(torch.arange(len(images))).flatten(1).float().numpy()
    return pixels


def _check_free(out: Path) -> None:
    """Refuse a folder that holds anything but an earlier demo, or a demo that somebody has worked on."""
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        check_writable(out / DEMO_RECORD)
        return
    mine = next((path for path in (Folder(out).edits, Folder(out).trust) if path.exists()), None)
    if mine or not (out / DEMO_RECORD).is_file():
        what = f"holds your work on an earlier demo, {mine.name}" if mine else "is not the folder of a demo"
        raise UsageError(f"{out} {what}.", Hint.NEW_FOLDER)


@contextmanager
def _replacing(out: Path) -> Iterator[Path]:
    """A new folder beside `out`; its files replace those of an earlier demo when the block ends."""
    out.mkdir(parents=True, exist_ok=True)
    with writing(out), TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as private:
        new, earlier = Path(private, "new"), Path(private, "earlier")
        yield new
        earlier.mkdir()
        for path in (*(out / name for name in FOLDERS), *Folder(out).files):
            if path.exists():
                path.rename(earlier / path.name)
        for path in new.iterdir():
            path.rename(out / path.name)
