"""The page of a run: what was found, to be opened in any browser; one file, nothing fetched from anywhere."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from numpy.typing import NDArray

from newfound.core.errors import UsageError
from newfound.core.learner import Method
from newfound.engine.files import check_writable, write_text
from newfound.experiment import Run
from newfound.experiment.call import call_of
from newfound.experiment.pile import Pile
from newfound.report.discovery import QUEUE, Discovery, discovery
from newfound.report.palette import colour
from newfound.report.thumbnails import data_uri
from newfound.report.tsne import MOST_POINTS, embed, stratified

GENERATOR = '<meta name="generator" content="newfound">'
"""By which a page of ours is known."""


@dataclass(frozen=True)
class Picture:
    """An image of the pile as the page shows it."""

    src: str
    file: str
    name: str
    """Its class."""
    confidence: float


def check_page(path: Path) -> None:
    """Refuse to write over anything but a page of ours."""
    if path.exists() and not (
        path.is_file() and GENERATOR in path.read_text(encoding="utf-8", errors="replace")
    ):
        raise UsageError(
            f"a report must go to a new file, or replace one; {path} is something else; choose another --out"
        )
    check_writable(path)


def write_run_page(run: Run, method: Method, results: Mapping[str, Any]) -> None:
    """Draw the page of a run that has just ended, in its folder."""
    pile = Pile.of(method, run.viewer(method), run.dataset, run.best_head)
    write_page(run.folder.report, pile, results, call_of(run.folder))


def write_page(path: Path, pile: Pile, results: Mapping[str, Any], call: str | None) -> None:
    """Draw the page of a run: `results` are its results.json, `call` is what started it."""
    found = discovery(pile.novel, pile.joint, pile.names, pile.num_known)
    album = Album(pile, found)
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True
    )
    text = templates.get_template("page.html").render(
        generator=GENERATOR,
        found=found,
        filled=sum(each.size > 0 for each in found.classes),
        pile=pile,
        results=results,
        call=call,
        pictures=album.pictures,
        looks_known=found.looks_known[:QUEUE],
        points=_map(album),
        colour=colour,
        seconds=sum(stage["seconds"] for stage in results["timing"].values()),
    )
    write_text(path, text)


class Album:
    """Pictures of the images that a page shows, each fetched when it is asked for."""

    def __init__(self, pile: Pile, found: Discovery) -> None:
        self.pile, self.found = pile, found

    def pictures(self, rows: NDArray[np.integer]) -> list[Picture]:
        return [
            Picture(data_uri(pixels), *self.caption(row))
            for row, pixels in zip(rows, self.pile.pixels(rows), strict=True)
        ]

    def caption(self, row: int) -> tuple[str, str, float]:
        """File, class and confidence of an image."""
        index = int(self.found.assigned[row])
        return self.pile.images.names[row], self.found.classes[index].name, float(self.found.confidence[row])


def _map(album: Album) -> list[Mapping[str, Any]]:
    """Images that stand for the pile, each with its place in the unit square."""
    pile, found = album.pile, album.found
    rows = stratified(found.assigned, MOST_POINTS)
    places = embed(pile.logits[rows])
    low, high = places.min(0), places.max(0)
    places = (places - low) / np.maximum(high - low, 1e-9)
    return [
        {
            **vars(picture),
            "x": round(float(x), 4),
            "y": round(float(y), 4),
            "colour": colour(pile.num_known + int(index)),
        }
        for picture, (x, y), index in zip(album.pictures(rows), places, found.assigned[rows], strict=True)
    ]
