"""The page of a run: what was found, to be opened in any browser; one file, nothing fetched from anywhere."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from numpy.typing import NDArray

from newfound.core.errors import UsageError
from newfound.data.holdout import FEWEST
from newfound.engine.files import check_writable, write_text
from newfound.experiment.call import call_of
from newfound.experiment.pile import Pile
from newfound.experiment.trust import Trust
from newfound.report.discovery import QUEUE, discovery
from newfound.report.palette import colour
from newfound.report.shown import Shown
from newfound.report.thumbnails import TINY, data_uri
from newfound.report.tsne import MOST_POINTS, embed, stratified
from newfound.review.review import Review

GENERATOR = '<meta name="generator" content="newfound">'
"""By which a page of ours is known."""


@dataclass(frozen=True)
class Picture:
    """An image of the pile as the page shows it."""

    src: str
    row: int
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


def write_page(review: Review, pile: Pile, out: Path | None = None, call: str | None = None) -> None:
    """Draw the page of a finished run, in its folder or in `out`; `call` made it, if not discover."""
    folder = review.folder
    text = page(pile, review, folder.read_results(), Trust.of(folder), call or call_of(folder))
    write_text(out or folder.report, text)


@dataclass(frozen=True)
class Chart:
    """Images that stand for the pile, by row, each with its place in the unit square."""

    rows: NDArray[np.integer]
    places: NDArray[np.floating]

    @classmethod
    def of(cls, pile: Pile, assigned: NDArray[np.integer]) -> "Chart":
        """A part of every class that images are `assigned` to."""
        rows = stratified(assigned, MOST_POINTS)
        places = embed(pile.logits[rows])
        low, high = places.min(0), places.max(0)
        return cls(rows, (places - low) / np.maximum(high - low, 1e-9))


def page(
    pile: Pile,
    review: Review,
    results: Mapping[str, Any],
    trust: Trust | None,
    call: str | None,
    live: Chart | None = None,
) -> str:
    """The HTML of a run: `results` are its results.json.

    A page that is served `live` edits the classes itself and asks for its pictures; its map stays as it is.
    """
    shown = Shown.of(pile, review)
    found = discovery(shown)
    album = Album(pile, shown, linked=live is not None)
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True
    )
    return templates.get_template("page.html").render(
        generator=GENERATOR,
        found=found,
        filled=sum(each.size > 0 for each in found.classes),
        shown=shown,
        comparable=pile.comparable,
        run=str(review.folder.path),
        quoted=review.folder.quoted,
        has_files=not review.folder.source().arrays,
        few=pile.num_known < 2 * FEWEST,
        edits=len(review.edits),
        seen=len(review.log),
        results=results,
        trust=trust,
        call=call,
        pictures=album.pictures,
        looks_known=found.looks_known[:QUEUE],
        points=_map(album, live or Chart.of(pile, shown.assigned)),
        live=live is not None,
        tiny=max(pile.images.size) <= TINY,
        colour=colour,
        seconds=sum(stage["seconds"] for stage in results["timing"].values()),
    )


class Album:
    """Pictures of the images that a page shows: within it, or `linked` to whoever serves it."""

    def __init__(self, pile: Pile, shown: Shown, linked: bool) -> None:
        self.pile, self.shown, self.linked = pile, shown, linked

    def pictures(self, rows: NDArray[np.integer]) -> list[Picture]:
        if self.linked:
            sources = [f"image/{row}" for row in rows]
        else:
            sources = [data_uri(pixels) for pixels in self.pile.pixels(rows)]
        return [self._picture(source, row) for source, row in zip(sources, rows.tolist(), strict=True)]

    def _picture(self, source: str, row: int) -> Picture:
        shown = self.shown
        name = shown.names[shown.assigned[row]]
        return Picture(source, row, self.pile.images.names[row], name, float(shown.confidence[row]))


def _map(album: Album, chart: Chart) -> list[Mapping[str, Any]]:
    shown = album.shown
    return [
        {
            **vars(picture),
            "x": round(float(x), 4),
            "y": round(float(y), 4),
            "colour": colour(shown.ids[shown.assigned[picture.row]]),
        }
        for picture, (x, y) in zip(album.pictures(chart.rows), chart.places, strict=True)
    ]
