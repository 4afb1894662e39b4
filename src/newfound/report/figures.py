"""The paper's figures from scores of the test images: t-SNE maps and confusion matrices, as PNG and PDF."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from newfound.report.confusion import accuracy, draw_confusion, matched_table
from newfound.report.palette import numbered
from newfound.report.saving import AGNOSTIC, AWARE, MAPS, ONE_RUN, save
from newfound.report.tsne import draw_tsne

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_IN_LEGEND = 20
USED = "by the head that is used, the one of the lowest loss"
"""Tables print the mean over the heads."""


@dataclass(frozen=True)
class RunScores:
    """What a run says of the test images, by the head it reports."""

    title: str
    scores: NDArray[np.floating]
    """(n, C) joint logits, known classes first."""
    novel: NDArray[np.floating]
    """(n, C_u) what it says where an image is known to be novel."""
    labels: NDArray[np.integer]
    """(n,) true classes as joint ids."""
    class_names: Sequence[str]
    num_known: int
    found: bool = False
    """Whether the images are those of training, and the novel ones have the classes that the run found."""


def figures(runs: Sequence[RunScores], folder: Path) -> list[Path]:
    """Draw the runs side by side and list the files written, each figure as PNG and as PDF.

    Confusion matrices need the true classes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    says = ONE_RUN if len(runs) == 1 else None
    drawn = {MAPS: tsne_figure(runs)}
    if not any(run.found for run in runs):
        drawn[AWARE] = task_aware_figure(runs)
        drawn[AGNOSTIC] = task_agnostic_figure(runs)
    return [path for name, figure in drawn.items() for path in save(figure, folder / name, says)]


def tsne_figure(runs: Sequence[RunScores]) -> "Figure":
    """A map of each run's joint logits, a column for each run."""
    images = " / ".join(dict.fromkeys("training images" if run.found else "test images" for run in runs))
    novel = "novel, as found" if any(run.found for run in runs) else "novel"
    figure, axes = _grid(1, len(runs), f"t-SNE of joint logits, {images}\n● known  ▲ {novel}")
    for run, ax in zip(runs, axes[0], strict=True):
        draw_tsne(run.scores, run.labels, run.class_names, run.num_known, run.title, ax)
    if len(runs[0].class_names) <= MOST_IN_LEGEND:
        _legend(figure, axes[0][0])
    return figure


def _legend(figure: "Figure", ax: "Axes") -> None:
    """The classes below the maps, in as many columns as fit."""
    handles, names = ax.get_legend_handles_labels()
    inches = 0.5 + 0.085 * max(len(name) for name in names)
    columns = max(1, min(5, int(figure.get_figwidth() / inches)))
    figure.legend(
        handles, names, loc="outside lower center", ncols=columns, fontsize=9, frameon=False, markerscale=2
    )


def task_aware_figure(runs: Sequence[RunScores]) -> "Figure":
    """Known images through the known head and novel ones through the novel head, a row for each run."""
    figure, axes = _grid(len(runs), 2, f"Task-aware protocol, test images\n{USED}")
    for run, (left, right) in zip(runs, axes, strict=True):
        known = run.labels < run.num_known
        _draw_part(run, known, run.scores[:, : run.num_known], 0, "known images, known head", left)
        _draw_part(run, ~known, run.novel, run.num_known, "novel images, novel head", right)
    return figure


def _draw_part(
    run: RunScores, rows: NDArray[np.bool_], scores: NDArray[np.floating], first: int, what: str, ax: "Axes"
) -> None:
    """The chosen rows, whose classes are those from `first` on."""
    names = numbered(run.class_names)[first:] if first else numbered(run.class_names)[: run.num_known]
    table = matched_table(
        scores[rows].argmax(-1),
        run.labels[rows] - first,
        scores.shape[1],
        len(names),
        num_known=0 if first else run.num_known,
    )
    _draw(table, names, f"{run.title}\n{what}: ACC {accuracy(table):.1%}", ax)


def task_agnostic_figure(runs: Sequence[RunScores]) -> "Figure":
    """All images over all classes, clusters matched with novel classes only, a column for each run."""
    figure, axes = _grid(1, len(runs), f"Task-agnostic protocol (novel-ids), test images\n{USED}")
    for run, ax in zip(runs, axes[0], strict=True):
        names = numbered(run.class_names)
        table = matched_table(
            run.scores.argmax(-1), run.labels, run.scores.shape[1], len(names), run.num_known
        )
        _draw(table, names, f"{run.title}\nall images, all classes: ACC {accuracy(table):.1%}", ax)
        for line in (ax.axhline, ax.axvline):
            line(run.num_known - 0.5, color="black", linewidth=0.8)
    return figure


def _draw(table: NDArray[np.integer], names: Sequence[str], title: str, ax: "Axes") -> None:
    spare = ["no class"] * (table.shape[1] - len(names))
    draw_confusion(table, names, [*names, *spare], title, ax)


def _grid(rows: int, columns: int, title: str) -> "tuple[Figure, list[list[Axes]]]":
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    layout = ConstrainedLayoutEngine(compress=True, h_pad=0.08, w_pad=0.08)
    figure = Figure(figsize=(4.8 * columns, 4.8 * rows + 0.4), layout=layout)
    axes = figure.subplots(rows, columns, squeeze=False)
    figure.suptitle(title, fontsize=11, fontweight="bold")
    return figure, axes.tolist()
