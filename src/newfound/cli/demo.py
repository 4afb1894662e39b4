"""The main job on the embedded data: digits 0-4 are known, 5-9 are to be found."""

import shutil
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from newfound.cli.output import output
from newfound.cli.progress import EpochProgress
from newfound.cli.use import draw_run_curves, run_scores
from newfound.core.errors import UsageError
from newfound.core.registry import recipe_for
from newfound.engine.files import write_json
from newfound.experiment import Folder, Run, Source
from newfound.experiment.finish import finish
from newfound.experiment.pixels import pixel_kmeans
from newfound.report.figures import figures
from newfound.report.tables import Row, results_table

SOURCE = Source(benchmark="digits")
METHODS = {"kmeans": "k-means on pretrained features", "uno-v2": "UNO v2", "iic": "IIC"}
PIXELS = "kmeans-pixels/results.json"
"""What a demo writes first; no other run writes it."""
FOLDERS = ("kmeans", "uno-v2", "kmeans-pixels", "pretrained", "figures", "tensorboard")
FILES = ("config.json", "metrics.jsonl", "checkpoint.safetensors", "results.json", "assignments.csv")


def demo(
    out: Annotated[Path, typer.Option(help="The run folder.")] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of every random stream.")] = 0,
) -> None:
    """Find the digits 5-9, knowing only 0-4: pretrain, discover, compare, draw."""
    _clear(out)
    console = output()
    dataset = SOURCE.load()
    console.print(dataset.note)
    pixels = pixel_kmeans(dataset, seed)
    write_json(out / PIXELS, pixels)
    records = {"k-means on raw pixels": pixels}
    for method, label in METHODS.items():
        folder = out if method == "iic" else out / method
        records[label] = _discover(console, method, folder, out / "pretrained", seed)
    rows = [Row(label, record, _seconds(record)) for label, record in records.items()]
    for label, record in records.items():
        for warning in record.get("warnings", ()):
            console.print(f"warning: {label}: {warning}")
    console.print(
        results_table(rows, title="digits 5-9 found knowing 0-4; one run, seconds without pretraining")
    )
    drawn = figures([run_scores(out / "uno-v2"), run_scores(out)], out / "figures")
    drawn.append(draw_run_curves(out, out / "figures"))
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


def _seconds(record: dict[str, Any]) -> float | None:
    timing = record["timing"].get("discover")
    return timing and float(timing["seconds"])


def _clear(out: Path) -> None:
    """The files of an earlier demo make room; anything else stays."""
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not (out / PIXELS).is_file():
        raise UsageError(
            f"{out} must be empty or hold an earlier demo; it holds something else; choose another --out"
        )
    for name in FOLDERS:
        shutil.rmtree(out / name, ignore_errors=True)
    for name in FILES:
        (out / name).unlink(missing_ok=True)
