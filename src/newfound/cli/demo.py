"""The main job on the embedded data: digits 0-4 are known, 5-9 are to be found."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import torch
import typer
from rich.console import Console

from newfound.cli.output import output
from newfound.cli.progress import EpochProgress
from newfound.cli.use import draw_run_curves, run_scores
from newfound.core.errors import UsageError
from newfound.core.records import Say
from newfound.core.registry import recipe_for
from newfound.engine.files import check_writable, write_json, writing
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
"""What a demo writes besides the files of its run and its figures."""


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
        _compare(console, new, out, seed)
    drawn = figures([run_scores(out / "uno-v2"), run_scores(out)], out / "figures")
    drawn += draw_run_curves(out, out / "figures")
    console.print(
        f"written: {out}/results.json, {out}/assignments.csv, {len(drawn)} figures in {out}/figures"
    )
    mine = Folder(out)
    write_page(Review.open(out), pile_of(mine), call=f"newfound demo --out {mine.quoted} --seed {seed}")
    console.print(f"to look at what was found, open {mine.report}")


def _compare(console: Console, new: Path, out: Path, seed: int) -> None:
    """All methods side by side, into the folder `new` that is to become `out`."""
    dataset = SOURCE.load()
    console.print(dataset.note)
    pixels = pixel_kmeans(dataset, seed)
    write_json(new / PIXELS, pixels)
    records = [pixels]
    for method in METHODS:
        track = "matched" if demo_recipe(method) == "matched" else "published"
        recipe = recipe_for(method, SOURCE.name, {"seed": seed, "track": track})
        folder, cache = Folder(new if method == "iic" else new / method), new / "pretrained"
        with EpochProgress(console, label=f"{method} ") as progress:
            say = _naming(out, new, progress.say)
            records.append(discovered(folder, SOURCE, dataset, recipe, cache, watch=progress, say=say)[0])
    for record in records:
        for warning in record.get("warnings", ()):
            console.print(f"warning: {record['method']}: {warning}")
    console.print(demo_table(records))


def _naming(out: Path, new: Path, say: Say) -> Say:
    """Lines about files in `new` name the place where they will be."""
    return lambda line: say(line.replace(str(new), str(out)))


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
