"""Write the predictions, assignments and results of a trained run."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from newfound.core.errors import shortened
from newfound.core.files import write_record
from newfound.core.learner import Method
from newfound.core.settings import Recipe
from newfound.core.source import EncoderVersion, Source
from newfound.data.dataset import Look, Split, counted, novel_names
from newfound.data.decode import decode_all
from newfound.data.vectors import sample_rows
from newfound.engine.device import precision_name
from newfound.engine.evaluate import Viewer, outside, scores_of
from newfound.metrics.calibration import temperature
from newfound.metrics.outliers import Extent, Flags, Floats, share_known
from newfound.run.folder import Folder
from newfound.run.models import (
    Calibration,
    Classes,
    CurvePoint,
    EpochLine,
    EstimatedNumber,
    Execution,
    Results,
)
from newfound.run.pile import Assignments, Pile
from newfound.run.provenance import peak_memory, provenance
from newfound.run.recipe import encoder_name, recipe_name
from newfound.run.training import Training, best_head

SEEM_KNOWN = 0.1
"""The share of a novel pile that may seem to be of known classes without a warning."""
MANY = 100_000
"""At most this many images are searched for near-duplicates, since they have to be decoded again."""
Levels = npt.NDArray[np.uint8]
Rows = npt.NDArray[np.int64]
SIDE = 16
"""Side S of the grey thumbnails that are searched for near-duplicates."""
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


def finish(training: Training, method: Method, source: Source, given: Split) -> Results:
    """Predict the unlabelled images, evaluate if there is ground truth, and write everything.

    `given` includes the labelled images that were held back from training. Edits refer to the assignments on
    which they were made, so the assignments of an edited run stay as they are.
    """
    folder, split = training.folder, training.whole.split
    head, viewer = best_head(training.lines), training.viewer(method)
    known, number = training.data.class_names[: method.task.num_known], method.task.num_novel
    novel = list(novel_names(known, number))
    classes = Classes(known=list(known), novel=novel, ids=source.ids_of(known, number))
    predicted = scores_of(method, viewer, split.unlabelled)
    features = viewer.over(split.unlabelled, lambda x: method.encoder(x), dtype=torch.float16)
    calibration = _calibrated(training, method, head)
    logits, scores = (each[head].cpu().numpy() / calibration.temperature for each in predicted)
    pile = Pile(scores, logits, features.cpu().numpy(), method.joint, split.pile)
    pile = _with_digests(pile, given) if source.labelled else pile
    unsorted, vectors = None, _vectors(given, training, viewer)
    if vectors:
        pile, unsorted = _with_extent(pile, given, training, viewer, vectors)
    pile.write(folder.pile)
    assigned = pile.assignments(split.unlabelled.names, unsorted)
    if folder.edits.exists() and folder.assignments.exists():
        assigned = Assignments.read(folder.assignments, classes)
    assigned.write(folder.assignments, classes)
    report = None
    if evaluator := training.evaluator(method, training.whole):
        report = evaluator(head, predicted)
        error = evaluator.calibration_error(assigned.ids, assigned.confidence)
        calibration = calibration.model_copy(update={"error": error})
    warnings = [
        *collapse_warnings(assigned.sizes(method.task.num_classes)[len(known) :], novel),
        *(known_warnings(*vectors, len(known)) if vectors and split.pile == "novel" else ()),
        *(duplicate_warnings(given.unlabelled.names) if source.unlabelled else ()),
    ]
    measured = dict(report or {}) | {"calibration": calibration}
    results = _results(training, method, source, classes, assigned, warnings).model_copy(update=measured)
    write_record(folder.results, results)
    return results


def _results(
    training: Training,
    method: Method,
    source: Source,
    classes: Classes,
    assigned: Assignments,
    warnings: list[str],
) -> Results:
    """The record of a run, without scores."""
    recipe, account, split = training.recipe, training.account, training.whole.split
    origin, sizes = provenance(training.device), assigned.sizes(method.task.num_classes)
    known_sizes, novel_sizes = sizes[: len(classes.known)], sizes[len(classes.known) :]
    return Results(
        method=recipe.method,
        recipe=recipe_name(recipe, source, split.look),
        benchmark=source.title,
        pile=split.pile,
        subset=source.subset,
        held_out=source.held_out,
        estimate=_estimated(training.folder, source),
        seed=recipe.run.seed,
        config=recipe.flat() | {"views": source.views},
        **dict(origin) | {"versions": origin.versions | _encoder(method, recipe, source, split.look)},
        execution=Execution(precision=precision_name(training.precision), mode=account.modes),
        sessions=account.sessions,
        timing=account.timing,
        reused=account.reused,
        peak_memory_gib=max(account.peak_memory_gib, round(peak_memory(training.device), 3)),
        encoder_revision=(source.frozen or method.encoder).revision or None,
        embedded_by=source.embedded_by,
        best_head=best_head(training.lines),
        curves=curves(training.lines),
        classes=classes,
        cluster_sizes=novel_sizes,
        known_sizes=known_sizes if split.pile == "mixed" or any(known_sizes) else None,
        unsorted=int(assigned.unsorted.sum()),
        warnings=warnings,
    )


def _encoder(method: Method, recipe: Recipe, source: Source, look: Look) -> dict[str, str]:
    """The encoder of the features in words: its name, revision, and input and output sizes."""
    made = source.embedded_by
    if look.kind == "vectors":
        pixels = made.preprocessing.partition(" pixels")[0] if made else ""
        return {"encoder": f"{made}, {pixels} pixels, {look.size:,} features"} if made else {}
    encoder = method.encoder
    name = EncoderVersion(encoder=encoder_name(recipe, look), revision=encoder.revision, preprocessing="")
    return {"encoder": f"{name}, {look.size} pixels, {encoder.dim:,} features"}


def _calibrated(training: Training, method: Method, head: int) -> Calibration:
    """The temperature that fits the known images held back from training, if there are any."""
    if training.held is None:
        return Calibration()
    images, labels = training.held
    scores = scores_of(method, training.viewer(method), images.to(training.device))[0][head].cpu()
    return Calibration(temperature=temperature(scores, labels.cpu()), images=len(labels))


def _with_digests(pile: Pile, split: Split) -> Pile:
    """The pile with the digests of its images and of the labelled ones."""
    labelled = dict(zip(split.labelled.contents(), split.labels.tolist(), strict=False))
    return replace(pile, digests=split.unlabelled.contents(), labelled=labelled)


def _vectors(split: Split, training: Training, viewer: Viewer) -> tuple[Floats, Floats] | None:
    """The input vectors of the labelled images and of the pile; None if the input is images.

    Distances need input vectors: in the features of a trained network, labelled images are nearer to the
    centres of their classes than others.
    """
    if split.look.kind != "vectors":
        return None
    both = (images.to(viewer.device) for images in (split.labelled, training.data.split.unlabelled))
    labelled, pile = (viewer.over(images, lambda x: x).cpu().numpy() for images in both)
    return labelled, pile


def _with_extent(
    pile: Pile, split: Split, training: Training, viewer: Viewer, vectors: tuple[Floats, Floats]
) -> tuple[Pile, Flags]:
    """The pile with the extent of its classes, and which images are outside.

    The extent is that of the vectors that were trained on; it is applied to all others as to new images.
    """
    run, found = training.recipe.run, pile.shares.argmax(1)
    rows = sample_rows(len(found), run.sample, run.seed).numpy()
    classes = np.concatenate([split.labels.cpu().numpy(), found[rows]])
    extent, far = Extent.of(np.concatenate(vectors), classes, len(split.labelled), pile.logits.shape[1])
    flags = far[len(split.labelled) :]
    if len(rows) < len(found):
        seen, flags = flags, outside(extent, split.unlabelled, found, viewer)
        flags[rows] = seen
    return replace(pile, extent=extent), flags


def _estimated(folder: Folder, source: Source) -> EstimatedNumber | None:
    """The number of novel classes and its range, if it was estimated."""
    if not source.estimated or source.num_novel is None:
        return None
    made = folder.read_estimate()
    low, high = (made.low, made.high) if made else (None, None)
    return EstimatedNumber(num_novel=source.num_novel, algorithm=source.estimated, low=low, high=high)


def curves(lines: Sequence[EpochLine]) -> dict[str, list[CurvePoint]]:
    """The evaluated epochs of each stage, or all of its epochs if none was evaluated."""
    stages: dict[str, list[CurvePoint]] = {}
    for line in lines:
        point = CurvePoint(epoch=line.epoch, lr=line.lr, losses=line.losses, scores=line.scores)
        stages.setdefault(line.stage, []).append(point)
    return {stage: [point for point in points if point.scores] or points for stage, points in stages.items()}


def known_warnings(labelled: Floats, pile: Floats, num_known: int) -> list[str]:
    """Warn of known classes in a novel pile, by labelled vectors (n, D) and those of the pile (m, D)."""
    share = share_known(labelled, pile, num_known) if len(pile) else 0.0
    if share <= SEEM_KNOWN:
        return []
    return [
        f"About {share:.0%} of the unlabelled images seem to be of known classes. Start a new run with pile "
        '"mixed" to assign them to these classes.'
    ]


def duplicate_warnings(paths: Sequence[str]) -> list[str]:
    """Warn of near-duplicates among the image files."""
    pixels, kept, _ = decode_all(paths[:MANY], (SIDE, SIDE), strict=False)
    groups = near_duplicates(pixels.float().mean(1).round().byte().numpy())
    if not groups:
        return []
    first = " and ".join(paths[kept[row]] for row in groups[0][:2])
    return [
        f"{sum(map(len, groups)):,} unlabelled images are near-duplicates, in "
        f"{counted(len(groups), 'group')}, for example {first}; they make classes look larger and more "
        "certain than they are"
    ]


def collapse_warnings(cluster_sizes: Sequence[int], names: Sequence[str]) -> list[str]:
    """Warn of empty clusters, and of one that holds most of the images (nearly all if there are two)."""
    total = sum(cluster_sizes)
    if not total:
        return []
    warnings, sizes = [], dict(zip(names, cluster_sizes, strict=True))
    if empty := [name for name, size in sizes.items() if not size]:
        number = f"{len(empty)} of {len(names)}"
        warnings.append(f"Novel classes without images are left out ({number}): {shortened(empty, 5)}.")
    largest = max(sizes, key=lambda name: sizes[name])
    share = sizes[largest] / total
    if len(sizes) > 1 and share > (0.5 if len(sizes) > 2 else 0.9):
        warnings.append(
            f"{largest} holds {share:.0%} of the images: the classes may have collapsed, or it is far larger "
            "than the others."
        )
    return warnings


def near_duplicates(levels: Levels) -> list[list[int]]:
    """Groups of rows of (n, S, S) that show the same picture; images of a single colour are in none.

    Near-duplicates differ only in size, compression, brightness or a narrow margin. Thumbnails are compared
    by the differences between neighbouring pixels. The pairs that are worth comparing have the same
    perceptual hash: the signs of random projections of these differences.
    """
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
