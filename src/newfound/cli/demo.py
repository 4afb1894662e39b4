"""The main job on the embedded data: digits 0-4 are known, 5-9 are to be found."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import torch
import typer
from rich.console import Console

from newfound.cli.output import output
from newfound.cli.progress import EpochProgress
from newfound.cli.use import draw_run_curves, run_scores
from newfound.core.errors import UsageError
from newfound.core.registry import recipe_for
from newfound.data.images import Dataset
from newfound.engine.files import check_writable, write_json
from newfound.experiment import Folder, Source
from newfound.experiment.discovery import discovered
from newfound.experiment.pixels import pixel_kmeans
from newfound.experiment.reopen import pile_of
from newfound.report.figures import figures
from newfound.report.page import write_page
from newfound.report.tables import demo_recipe, demo_table
from newfound.review.review import Review

SOURCE = Source(benchmark="digits")
METHODS = ("kmeans", "uno-v2", "iic")
PIXELS = "kmeans-pixels/results.json"
"""What a demo writes first; no other run writes it."""
FOLDERS = ("kmeans", "uno-v2", "kmeans-pixels", "pretrained", "tensorboard")


def demo(
    out: Annotated[Path, typer.Option(help="The run folder.")] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of every random stream.")] = 0,
) -> None:
    """Find the digits 5-9, knowing only 0-4: pretrain, discover, compare, draw."""
    _check_room(out)
    # For tensors this small a second thread mostly waits; and with one the numbers are those on record.
    torch.set_num_threads(1)
    console = output()
    with _in_place_of(out) as new:
        drawn = _compare(console, new, seed)
    console.print(f"written: {out}/results.json, {out}/assignments.csv, {drawn} figures in {out}/figures")
    mine = Folder(out)
    write_page(Review.open(out), pile_of(mine), call=f"newfound demo --out {mine.quoted} --seed {seed}")
    console.print(f"to look at what was found, open {mine.report}")


def _compare(console: Console, out: Path, seed: int) -> int:
    """All methods into `out`, and how many figures were drawn of them."""
    dataset = SOURCE.load()
    console.print(dataset.note)
    pixels = pixel_kmeans(dataset, seed)
    write_json(out / PIXELS, pixels)
    records = [pixels]
    for method in METHODS:
        folder = out if method == "iic" else out / method
        records.append(_discover(console, method, dataset, Folder(folder), out / "pretrained", seed))
    for record in records:
        for warning in record.get("warnings", ()):
            console.print(f"warning: {record['method']}: {warning}")
    console.print(demo_table(records))
    drawn = figures([run_scores(out / "uno-v2"), run_scores(out)], out / "figures")
    return len(drawn + draw_run_curves(out, out / "figures"))


def _discover(
    console: Console, method: str, dataset: Dataset, folder: Folder, cache: Path, seed: int
) -> dict[str, Any]:
    track = "matched" if demo_recipe(method) == "matched" else "published"
    recipe = recipe_for(method, SOURCE.name, {"seed": seed, "track": track})
    with EpochProgress(console, label=f"{method} ") as progress:
        return discovered(folder, SOURCE, dataset, recipe, cache, watch=progress, say=progress.say)[0]


def _check_room(out: Path) -> None:
    """An earlier demo may be replaced, but neither anything else nor what a person made of it."""
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        check_writable(out / PIXELS)
        return
    if not (out / PIXELS).is_file():
        raise UsageError(
            f"{out} must be empty or hold an earlier demo; it holds something else; choose another --out"
        )
    folder = Folder(out)
    for path, what in (
        (folder.edits, "your edits of an earlier demo's classes"),
        (folder.trust.path, "your trial of an earlier demo"),
    ):
        if path.exists():
            raise UsageError(
                f"{out} must hold nothing that is yours; it holds {what}, {path}; choose another --out, or "
                "move it away"
            )


@contextmanager
def _in_place_of(out: Path) -> Iterator[Path]:
    """A folder beside `out` whose files take the place of an earlier demo's once all of them are there."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as private:
        new = Path(private, out.name)
        yield new
        for name in FOLDERS:
            shutil.rmtree(out / name, ignore_errors=True)
        for path in Folder(out).files:
            path.unlink(missing_ok=True)
        shutil.copytree(new, out, dirs_exist_ok=True)
