"""Near-duplicates: images that differ only in size, compression, brightness or a narrow margin.

Grey thumbnails of S x S pixels are compared by the differences between neighbouring pixels. The pairs that
are worth comparing have the same perceptual hash: the signs of random projections of these differences.
"""

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

Levels = npt.NDArray[np.uint8]
Rows = npt.NDArray[np.int64]
SIDE = 16
ALIKE = 0.98
"""Minimum cosine of the differences; a photograph saved again as JPEG has 0.99."""
HASHES = 8
"""Number of hashes; a pair at `ALIKE` shares each with a probability of 0.35, at least one with 0.97."""
BITS = 16
"""Length of a hash."""
NEXT = 4
"""Number of following images with the same hash that an image is compared with."""
CHUNK = 10_000
"""Images, or pairs of them, that are compared at a time."""


def near_duplicates(levels: Levels) -> list[list[int]]:
    """Groups of rows of (n, S, S) that show the same picture; images of a single colour are in none."""
    number = len(levels)
    random, chunks = np.random.default_rng(0), np.array_split(levels, number // CHUNK + 1)
    directions = random.normal(size=(2 * SIDE * (SIDE - 1), HASHES * (BITS + 1))).astype(np.float32)
    drawn = np.concatenate([_differences(chunk) @ directions for chunk in chunks])
    patterned = np.flatnonzero(levels.min((1, 2)) < levels.max((1, 2)))
    found = [np.empty(0, np.int64)]
    for values in np.split(drawn, HASHES, axis=1):
        hashes = (values[:, 1:] > 0) @ (1 << np.arange(BITS))
        order = patterned[np.lexsort((values[patterned, 0], hashes[patterned]))]
        for step in range(1, NEXT + 1):  # similar images are close to each other in this order
            first, second = order[:-step], order[step:]
            same = hashes[first] == hashes[second]
            found.append(np.minimum(first, second)[same] * number + np.maximum(first, second)[same])
    pairs = np.unique(np.concatenate(found))
    alike = [
        part[_alike(levels, *divmod(part, number))] for part in np.array_split(pairs, len(pairs) // CHUNK + 1)
    ]
    first, second = divmod(np.concatenate(alike), number)
    graph = coo_array((np.ones(len(first)), (first, second)), shape=(number, number))
    groups: dict[int, list[int]] = {}
    for row, group in enumerate(connected_components(graph, directed=False)[1].tolist()):
        groups.setdefault(group, []).append(row)
    return [rows for rows in groups.values() if len(rows) > 1]


def _alike(levels: Levels, first: Rows, second: Rows) -> npt.NDArray[np.bool_]:
    """Which of m pairs of rows show the same picture."""
    a, b = _differences(levels[first]), _differences(levels[second])
    alike: npt.NDArray[np.bool_] = (a * b).sum(1) > ALIKE * np.linalg.norm(a, axis=1) * np.linalg.norm(
        b, axis=1
    )
    return alike


def _differences(levels: Levels) -> npt.NDArray[np.float32]:
    """(n, S, S) → differences between neighbours in columns and in rows, (n, 2 S (S - 1))."""
    values = levels.astype(np.float32)
    steps = [np.diff(values, axis=axis).reshape(len(values), SIDE * (SIDE - 1)) for axis in (1, 2)]
    return np.concatenate(steps, axis=1)
