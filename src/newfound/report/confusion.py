"""Confusion matrices: true classes down, predicted ones across, clusters under the class they match.

Shapes: n images, P predicted ids, T true classes.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from newfound.metrics.clustering import confusion, match

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Ints = NDArray[np.integer]
Floats = NDArray[np.floating]

MOST_NAMED = 12
"""Larger matrices show indices and a scale of colours instead of names and numbers."""


def matched_table(predicted: Ints, true: Ints, num_predicted: int, num_true: int, num_known: int) -> Ints:
    """Counts with a column for each class, then one for each cluster left over: (n,), (n,) → (T, T + spare).

    The first `num_known` ids are classes; the others are clusters, matched with the novel classes over the
    whole split at once. The column of a class that no cluster is matched with is empty.
    """
    table = confusion(torch.as_tensor(predicted), torch.as_tensor(true), num_predicted, num_true)
    clusters = match(table[num_known:, num_known:])
    columns = torch.cat([torch.arange(num_known), torch.where(clusters < 0, -1, clusters + num_known)])
    spare = columns < 0
    columns[spare] = num_true + torch.arange(int(spare.sum()))
    counts = torch.zeros(num_true, num_true + int(spare.sum()), dtype=torch.int64)
    counts[:, columns] = table.T
    return counts.numpy()


def accuracy(table: Ints) -> float:
    """The share of the images that lie on the diagonal: (T, P) → [0, 1]."""
    return float(np.trace(table) / max(table.sum(), 1))


def draw_confusion(
    table: Ints, names_rows: Sequence[str], names_columns: Sequence[str], title: str, axes: "Axes"
) -> None:
    """Draw counts (T, P), each row as the percentages of its class; names begin with their index."""
    percent = 100 * table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    image = axes.imshow(percent, cmap="Blues", vmin=0, vmax=100, aspect="equal")
    axes.set_title(title, fontsize=10)
    axes.set(xlabel="predicted (% of the true class)", ylabel="true class")
    if max(table.shape) > MOST_NAMED:
        axes.set_xticks(*_some(names_columns))
        axes.set_yticks(*_some(names_rows))
        axes.figure.colorbar(image, ax=axes, shrink=0.6)
        return
    axes.set_xticks(range(len(names_columns)), names_columns, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(names_rows)), names_rows)
    axes.tick_params(length=0, labelsize=9)
    _annotate(percent, axes)


def _some(names: Sequence[str]) -> tuple[list[int], list[str]]:
    """About ten positions and the first word of the names there, which is the index of the class."""
    positions = list(range(0, len(names), -(-len(names) // 10)))
    return positions, [names[position].split()[0] for position in positions]


def _annotate(percent: Floats, axes: "Axes") -> None:
    for (row, column), value in np.ndenumerate(percent):
        ink = "white" if value > 55 else "black" if value >= 0.5 else "0.65"
        axes.text(column, row, f"{value:.0f}", ha="center", va="center", color=ink, fontsize=8)
