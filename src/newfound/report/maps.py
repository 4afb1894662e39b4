"""t-SNE maps of the joint logits, and the marks of classes, which colour-blind readers can tell apart."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from newfound.metrics.outliers import Floats, Ints

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_POINTS = 1200
"""Enough points to see the clusters; t-SNE takes about four seconds."""
Pictures = Callable[[Sequence[int], int], list[bytes]]
"""Rows of a run's unlabelled images, and the longest side in pixels → image files for a browser."""

# Any two colours differ clearly for every kind of colour blindness, and all stand out from the background:
# white, or almost black in the dark theme.
_LIGHT = (
    *("#0055ff", "#cc7755", "#227700", "#cc0055", "#990099"),
    *("#0099aa", "#669900", "#772211", "#000099", "#222222"),
)
_DARK = (
    *("#0077ff", "#ff9944", "#99ee77", "#dd2266", "#bb44bb"),
    *("#00ddff", "#eecc11", "#cc6600", "#ff66cc", "#f2f2f2"),
)
_SHAPES = (
    "M1 0A1 1 0 1 1-1 0A1 1 0 1 1 1 0Z",
    "M-.9-.9H.9V.9H-.9Z",
    "M0-1.1 1.1.9H-1.1Z",
    "M0-1.2 1.2 0 0 1.2-1.2 0Z",
    "M0 1.1 1.1-.9H-1.1Z",
    "M-.4-1.1H.4V-.4H1.1V.4H.4V1.1H-.4V.4H-1.1V-.4H-.4Z",
)


def draw_tsne(
    logits: Floats, labels: Ints, class_names: Sequence[str], num_known: int, title: str, axes: "Axes"
) -> None:
    """Draw a t-SNE map of logits (n, C), with the colour and shape of each image's class (n,)."""
    chosen = stratified(labels, MOST_POINTS)
    labels, points = labels[chosen], embed(logits[chosen])
    area = float(np.clip(16000 / len(points), 9, 45))
    for index, name in enumerate(numbered(class_names)):
        x, y = points[labels == index].T
        axes.scatter(
            x,
            y,
            s=area if index < num_known else 1.4 * area,
            marker=("osDph8" if index < num_known else "^v<>PX")[shape(index)],
            color=colour(index),
            alpha=0.75,
            linewidths=0,
            label=name,
            rasterized=True,
        )
    _mark(points, labels, 10 if len(class_names) <= 20 else 6, axes)
    axes.set_title(title, fontsize=10)
    axes.set(xticks=[], yticks=[], aspect="equal")
    axes.set_adjustable("datalim")


def _mark(points: Floats, labels: Ints, size: int, axes: "Axes") -> None:
    """Write the index of each class above its images, within the axes and without overlaps."""
    badge = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "0.4", "linewidth": 0.6}
    present = np.unique(labels)
    unit = 0.008 * size * float(np.ptp(points))
    of_class = [points[labels == index] for index in present]
    tops = [(np.median(own[:, 0]), np.quantile(own[:, 1], 0.9) + 0.8 * unit) for own in of_class]
    places = spread(np.array(tops), unit)
    axes.update_datalim(np.concatenate([places - unit / 2, places + unit / 2]))
    axes.autoscale_view()
    for index, (x, y) in zip(present, places, strict=True):
        axes.text(x, y, str(index), fontsize=size, fontweight="bold", ha="center", va="center", bbox=badge)


def stratified(labels: Ints, most: int) -> Ints:
    """At most `most` rows, in the proportions of the classes and always the same ones: (n,) → (m,)."""
    shuffled = np.random.default_rng(0).permutation(len(labels))
    by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
    kept = min(most, len(labels))
    return np.sort(by_class[np.arange(kept) * len(labels) // kept])


def embed(logits: Floats) -> Floats:
    """t-SNE that starts from the two principal axes: (n, C) → (n, 2). Few points get a lower perplexity.

    One or two points are placed side by side.
    """
    if len(logits) < 3:
        return np.stack([np.arange(len(logits)), np.zeros(len(logits))], axis=1)
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    # Equal rows, as in a collapsed run, have no principal axes; slight noise provides some.
    noise = np.random.default_rng(0).normal(scale=1e-6, size=logits.shape)
    perplexity = max(1.0, min(30.0, (len(logits) - 1) / 3))
    tsne = TSNE(init="pca", perplexity=perplexity, random_state=0)
    # t-SNE has thousands of short parallel regions: several threads are much slower on a busy machine.
    with threadpool_limits(1):
        mapped: Floats = tsne.fit_transform(logits.astype(np.float64) + noise)
    return mapped


def spread(points: Floats, distance: float) -> Floats:
    """Push points apart until no two are closer than `distance`, in at most 200 steps: (n, 2) → (n, 2)."""
    # Equal points need different directions to move apart.
    angles = 2.4 * np.arange(len(points))
    placed = points + 1e-3 * distance * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    for _ in range(200):
        gaps = placed[:, None] - placed[None]
        lengths = np.linalg.norm(gaps, axis=-1) + np.eye(len(placed)) * 2 * distance
        push = np.clip(1.01 * distance - lengths, 0, None) / lengths
        if not push.any():
            break
        placed = placed + 0.5 * (push[..., None] * gaps).sum(1)
    return placed


class Mark(NamedTuple):
    """How a page draws the images of a class."""

    path: str
    """SVG, around the origin, about 2 wide and high."""
    light: str
    """The colour on white."""
    dark: str
    """The colour on black."""
    filled: bool


UNSORTED_MARK = Mark("M-.9-.9.9.9M-.9.9.9-.9", "#7a7a7a", "#999999", False)
"""The mark of unsorted images."""


def colour(index: int) -> str:
    """The colour of a class on white; the ten colours repeat."""
    return _LIGHT[index % len(_LIGHT)]


def shape(index: int) -> int:
    """The shape of a class, one of six, which changes after every ten classes."""
    return index // len(_LIGHT) % len(_SHAPES)


def mark(index: int, known: bool) -> Mark:
    """The mark of a class, an outline if it is known. The first 60 known and 60 novel ones all differ."""
    return Mark(_SHAPES[shape(index)], colour(index), _DARK[index % len(_DARK)], not known)


def numbered(names: Sequence[str]) -> list[str]:
    """Class names after their index, for figures. Long names are cut, and `$` is escaped."""
    short = ((name if len(name) <= 18 else f"{name[:17]}…").replace("$", r"\$") for name in names)
    return [name if name == str(index) else f"{index} {name}" for index, name in enumerate(short)]
