"""Figures: t-SNE maps and confusion matrices of runs, training curves, the curve of an estimate.

Shapes: n images, P predicted ids, T true classes.
"""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from newfound.core.errors import Hint, UsageError
from newfound.core.files import atomic
from newfound.metrics.outliers import Floats, Ints
from newfound.report.maps import colour, draw_tsne, numbered

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from newfound.run.models import EpochLine, Estimate
    from newfound.run.trained import RunScores

MAPS = "tsne"
AWARE = "confusion-task-aware"
AGNOSTIC = "confusion-task-agnostic"
CURVES = "curves"
FIGURES = (MAPS, AWARE, AGNOSTIC, CURVES)
"""The file names of the figures of a run, without suffix."""
SUFFIXES = ("png", "pdf")
ONE_RUN = "newfound: figure of one run"
"""Stored in figures of one run, so that nothing else is overwritten."""
MOST_IN_LEGEND = 20
"""A map of more classes has no legend."""
MOST_NAMED = 12
"""Larger matrices show indices and a colour scale instead of names and numbers."""
HEAD = "by the selected head, the one of lowest loss"
"""The figures say so, because tables print the mean over the heads."""


def check_replaceable(path: Path, mark: str) -> None:
    """Refuse to overwrite a file that does not contain `mark`, which our own files do."""
    if path.exists() and not (path.is_file() and mark.encode() in path.read_bytes()):
        raise UsageError(f"{path} exists and was not written by newfound.", Hint.NEW_FOLDER)


def check_figures(folder: Path) -> None:
    """Refuse to overwrite anything but figures of one run."""
    for name in FIGURES:
        for suffix in SUFFIXES:
            check_replaceable(folder / f"{name}.{suffix}", ONE_RUN)


def figures(runs: "Sequence[RunScores]", folder: Path) -> list[Path]:
    """Draw the runs side by side, each figure as PNG and as PDF; returns the files.

    Confusion matrices are drawn only if the true classes are known.
    """
    folder.mkdir(parents=True, exist_ok=True)
    drawn = {MAPS: tsne_figure(runs)}
    if not any(run.found for run in runs):
        drawn[AWARE] = task_aware_figure(runs)
        drawn[AGNOSTIC] = task_agnostic_figure(runs)
    subject = ONE_RUN if len(runs) == 1 else None
    with warnings.catch_warnings():
        # The font may lack a character; the index beside the name still identifies the class.
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
        for name, figure in drawn.items():  # without a date, equal figures have equal bytes
            figure.savefig(folder / f"{name}.png", dpi=150, metadata={"Subject": subject})
            dateless = {"CreationDate": None, "Subject": subject}
            figure.savefig(folder / f"{name}.pdf", dpi=300, metadata=dateless)
    return [folder / f"{name}.{suffix}" for name in drawn for suffix in SUFFIXES]


def tsne_figure(runs: "Sequence[RunScores]") -> "Figure":
    """A t-SNE map of the joint logits, a column for each run."""
    images = " / ".join(dict.fromkeys("training images" if run.found else "test images" for run in runs))
    novel = "novel, as discovered" if any(run.found for run in runs) else "novel"
    figure, axes = _grid(1, len(runs), f"t-SNE of joint logits, {images}\n● known  ▲ {novel}")
    for run, ax in zip(runs, axes[0], strict=True):
        draw_tsne(run.scores, run.labels, run.class_names, run.num_known, run.title, ax)
    if len(runs[0].class_names) <= MOST_IN_LEGEND:
        handles, names = axes[0][0].get_legend_handles_labels()
        inches = 0.5 + 0.085 * max(len(name) for name in names)
        columns = max(1, min(5, int(figure.get_figwidth() / inches)))  # as many as fit
        look = {"ncols": columns, "fontsize": 9, "frameon": False, "markerscale": 2}
        figure.legend(handles, names, loc="outside lower center", **look)
    return figure


def task_aware_figure(runs: "Sequence[RunScores]") -> "Figure":
    """Confusion of known images by the known head and of novel ones by the novel head, a row for each run."""
    figure, axes = _grid(len(runs), 2, f"Task-aware protocol, test images\n{HEAD}")
    for run, (left, right) in zip(runs, axes, strict=True):
        known = run.num_known
        _draw_part(run, run.scores[:, :known], 0, known, "known images, known head", left)
        _draw_part(run, run.novel, known, len(run.class_names), "novel images, novel head", right)
    return figure


def task_agnostic_figure(runs: "Sequence[RunScores]") -> "Figure":
    """Confusion of all images, with clusters matched to novel classes only, a column for each run."""
    figure, axes = _grid(1, len(runs), f"Task-agnostic protocol (novel-ids), test images\n{HEAD}")
    for run, ax in zip(runs, axes[0], strict=True):
        _draw_part(run, run.scores, 0, len(run.class_names), "all images, all classes", ax)
        for line in (ax.axhline, ax.axvline):
            line(run.num_known - 0.5, color="black", linewidth=0.8)
    return figure


def _draw_part(run: "RunScores", scores: Floats, first: int, end: int, what: str, ax: "Axes") -> None:
    """Draw the confusion of the classes from `first` up to `end`, exclusive, by the scores of a head."""
    names, inside = numbered(run.class_names)[first:end], (run.labels >= first) & (run.labels < end)
    predicted, true = scores[inside].argmax(-1), run.labels[inside] - first
    table = matched_table(predicted, true, scores.shape[1], len(names), max(run.num_known - first, 0))
    accuracy = np.trace(table) / max(table.sum(), 1)
    draw_confusion(table, names, f"{run.title}\n{what}: ACC {accuracy:.1%}", ax)


def _grid(rows: int, columns: int, title: str) -> "tuple[Figure, list[list[Axes]]]":
    """A figure with rows and columns of axes."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    layout = ConstrainedLayoutEngine(compress=True, h_pad=0.08, w_pad=0.08)
    figure = Figure(figsize=(4.8 * columns, 4.8 * rows + 0.4), layout=layout)
    axes = figure.subplots(rows, columns, squeeze=False)
    figure.suptitle(title, fontsize=11, fontweight="bold")
    return figure, axes.tolist()


def matched_table(predicted: Ints, true: Ints, num_predicted: int, num_true: int, num_known: int) -> Ints:
    """Counts with a column per class, then one per unmatched cluster: (n,), (n,) → (T, T + spare).

    The first `num_known` ids are classes; the others are clusters, matched with the novel classes over the
    whole split at once. The column of a class without a matching cluster is empty.
    """
    import torch

    from newfound.metrics.clustering import confusion, match

    table = confusion(torch.as_tensor(predicted), torch.as_tensor(true), num_predicted, num_true)
    clusters = match(table[num_known:, num_known:])
    columns = torch.cat([torch.arange(num_known), torch.where(clusters < 0, -1, clusters + num_known)])
    spare = columns < 0
    columns[spare] = num_true + torch.arange(int(spare.sum()))
    counts = torch.zeros(num_true, num_true + int(spare.sum()), dtype=torch.int64)
    counts[:, columns] = table.T
    return counts.numpy()


def draw_confusion(table: Ints, names: Sequence[str], title: str, axes: "Axes") -> None:
    """Draw counts (T, P), P >= T, each row in percent of its class; names start with their index."""
    percent = 100 * table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    image = axes.imshow(percent, cmap="Blues", vmin=0, vmax=100, aspect="equal")
    axes.set_title(title, fontsize=10)
    axes.set(xlabel="predicted (% of the true class)", ylabel="true class")
    columns = [*names, *["no class"] * (table.shape[1] - len(names))]
    if max(table.shape) > MOST_NAMED:
        axes.set_xticks(*_some(columns))
        axes.set_yticks(*_some(names))
        axes.figure.colorbar(image, ax=axes, shrink=0.6)
        return
    axes.set_xticks(range(len(columns)), columns, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(length=0, labelsize=9)
    for (row, column), value in np.ndenumerate(percent):
        ink = "white" if value > 55 else "black" if value >= 0.5 else "0.65"
        axes.text(column, row, f"{value:.0f}", ha="center", va="center", color=ink, fontsize=8)


def _some(names: Sequence[str]) -> tuple[list[int], list[str]]:
    """About ten positions, and the first word of the name at each: the index of the class."""
    positions = list(range(0, len(names), -(-len(names) // 10)))
    return positions, [names[position].split()[0] for position in positions]


def draw_curves(lines: "Sequence[EpochLine]", path: Path) -> None:
    """Draw the last stage of a run: scores above, losses below. Most epochs have no scores."""
    last = [line for line in lines if line.stage == lines[-1].stage]
    both = {
        "score": [(line.epoch + 1, line.scores) for line in last],
        "loss": [(line.epoch + 1, line.losses) for line in last],
    }
    parts = {label: points for label, points in both.items() if any(values for _, values in points)}
    figure, panels = _panels(len(parts), 2.4)
    for (label, points), ax in zip(parts.items(), panels, strict=True):
        for index, name in enumerate(dict.fromkeys(name for _, values in points for name in values)):
            epochs, values = zip(*((at, found[name]) for at, found in points if name in found), strict=True)
            ax.plot(epochs, values, color=colour(index), label=name, marker="." if len(epochs) < 40 else "")
        _finish_panel(ax, label)
    panels[-1].set_xlabel(f"epoch of {last[-1].stage}")
    figure.savefig(path, dpi=150, metadata={"Subject": ONE_RUN})


def verdict(estimate: "Estimate") -> str:
    """A finished estimate in words: `23 novel classes by dtc, 19 to 27 are plausible`."""
    number, low, high = (value or 0 for value in (estimate.num_novel, estimate.low, estimate.high))
    by = f"{number} novel class{'es' * (number != 1)} by {estimate.algorithm}"
    by += f" on a sample of {estimate.sample:,} vectors" if estimate.sample else ""
    if not high:
        return f"{by}: all images look like known classes"
    if low < high:
        return f"{by}, {low} to {high} are plausible"
    if number >= max(trial.extra for trial in estimate.curve):
        return f"{by}, the largest number considered"
    return f"{by}; its criteria agree" if len(estimate.preferred) > 1 else by


def draw_estimate(estimate: "Estimate", path: Path) -> None:
    """Draw a finished estimate: a panel for each criterion, with its best trial and the deciding one."""
    criteria = [name for name in ("accuracy", "silhouette") if name in estimate.preferred]
    figure, panels = _panels(len(criteria), 2.2, 0.4)
    for index, (name, ax) in enumerate(zip(criteria, panels, strict=True)):
        values = [getattr(trial, name) for trial in estimate.curve]
        ax.plot([trial.extra for trial in estimate.curve], values, color=colour(index), marker=".")
        ax.axvline(estimate.preferred[name], color=colour(index), linestyle=":", label=f"best {name}")
        if estimate.extra is not None:
            ax.axvline(estimate.extra, color="0.3", linestyle="--", label="selected")
        _finish_panel(ax, name)
    figure.suptitle(verdict(estimate), fontsize=10)
    panels[-1].set_xlabel("clusters beyond the classes of the labelled images")
    with atomic(path) as temporary:
        figure.savefig(temporary, dpi=150, format="png")


def _panels(number: int, height: float, more: float = 0.0) -> "tuple[Figure, list[Axes]]":
    """Panels one above the other that share the x axis."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, height * number + more), layout="constrained")
    return figure, list(figure.subplots(number, 1, squeeze=False, sharex=True)[:, 0])


def _finish_panel(ax: "Axes", label: str) -> None:
    """Label a panel, put its legend beside it and remove two spines."""
    ax.set_ylabel(label)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
