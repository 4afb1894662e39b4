"""The main job on the embedded data: digits 0-4 are known, 5-9 are to be found."""

import shutil
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from newfound.cli.progress import EpochProgress
from newfound.cli.use import run_scores
from newfound.core.errors import UsageError
from newfound.core.registry import recipe_for
from newfound.experiment import Folder, Run, Source
from newfound.experiment.finish import finish
from newfound.experiment.pixels import pixel_kmeans
from newfound.report.figures import figures
from newfound.report.tables import Row, results_table

SOURCE = Source(benchmark="digits")
BASELINES = ("kmeans", "uno-v2")


def demo(
    out: Annotated[Path, typer.Option(help="The run folder.")] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of every random stream.")] = 0,
) -> None:
    """Find the digits 5-9, knowing only 0-4: pretrain, discover, compare, draw."""
    _clear(out)
    console = Console()
    dataset = SOURCE.load()
    console.print(dataset.note, highlight=False)
    start = time.perf_counter()
    rows = [Row("k-means on raw pixels", pixel_kmeans(dataset, seed), time.perf_counter() - start)]
    for method in (*BASELINES, "iic"):
        folder = out if method == "iic" else out / method
        results = _discover(console, method, folder, out / "pretrained", seed)
        label = "k-means on pretrained features" if method == "kmeans" else method
        rows.append(Row(label, results, results["timing"].get("discover", {}).get("seconds")))
    console.print(
        results_table(rows, title="digits 5-9 found knowing 0-4; one run, seconds without pretraining")
    )
    drawn = figures([run_scores(out / "uno-v2"), run_scores(out)], out / "figures")
    console.print(
        f"written: {out}/results.json, {out}/assignments.csv, {len(drawn)} figures in {out}/figures"
    )


def _discover(console: Console, method: str, path: Path, cache: Path, seed: int) -> dict[str, Any]:
    recipe = recipe_for(method, SOURCE.name, {"seed": seed})
    folder = Folder(path)
    folder.open(SOURCE, recipe, resume=False)
    with EpochProgress(console, label=f"{method} ") as progress:
        run = Run(folder, SOURCE.load(), recipe, watch=progress, say=progress.say)
        return finish(run, run.discover(cache))


def _clear(out: Path) -> None:
    """An earlier demo makes room; anything else stays."""
    if not out.exists() or not any(out.iterdir()):
        return
    if not (out / "uno-v2").is_dir():
        raise UsageError(
            f"{out} must be empty or hold an earlier demo; it holds something else; choose another --out"
        )
    shutil.rmtree(out)
