"""How a run went: its scores and its losses over the epochs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from newfound.report.palette import colour
from newfound.report.saving import ONE_RUN

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_curves(history: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draw the last stage of a run from the lines of its metrics.jsonl: scores above, losses below.

    A line has `stage`, `epoch` from 0, `losses` and `scores` by name; scores may be missing in most epochs.
    """
    from matplotlib.figure import Figure

    lines = [line for line in history if line["stage"] == history[-1]["stage"]]
    parts = [part for part in ("scores", "losses") if any(line[part] for line in lines)]
    figure = Figure(figsize=(7.2, 2.4 * len(parts)), layout="constrained")
    for part, (ax,) in zip(parts, figure.subplots(len(parts), 1, squeeze=False, sharex=True), strict=True):
        _draw_part(lines, part, ax)
        ax.set_ylabel({"scores": "score", "losses": "loss"}[part])
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    ax.set_xlabel(f"epoch of {lines[-1]['stage']}")
    figure.savefig(path, dpi=150, metadata={"Subject": ONE_RUN})


def _draw_part(lines: Sequence[Mapping[str, Any]], part: str, ax: "Axes") -> None:
    names = list(dict.fromkeys(name for line in lines for name in line[part]))
    for index, name in enumerate(names):
        seen = [(line["epoch"] + 1, line[part][name]) for line in lines if name in line[part]]
        epochs, values = zip(*seen, strict=True)
        ax.plot(epochs, values, color=colour(index), label=name, marker="." if len(seen) < 40 else "")
