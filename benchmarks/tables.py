"""A benchmark record as tables for the terminal."""

from collections.abc import Iterator

from rich import box
from rich.table import Table

from benchmarks.record import (
    BaselineSpeed,
    DiscoverTime,
    EmbedMemory,
    EmbedSpeed,
    Evaluation,
    InterRow,
    KMeansSpeed,
    MethodSpeed,
    Record,
    Speed,
    StepSpeed,
    Terms,
)

SPLIT = ("augmentation", "forward", "backward", "optimiser")
"""The parts of a step, in the order of a table's columns."""


def tables(record: Record) -> Iterator[Table]:
    """One table for each part that was measured."""
    if record.step or record.baseline:
        yield _steps(record)
    if record.terms:
        yield _terms(record.terms)
    if record.inter:
        yield _inter(record.inter)
    if record.evaluation:
        yield _evaluation(record.evaluation)
    if record.kmeans:
        yield _kmeans(record.kmeans)
    if record.methods:
        yield _methods(
            record.methods, f"every method, {record.benchmark}: training step on {record.hardware}"
        )
    if record.embed:
        yield _embed(record.embed, record.hardware)
    if record.memory:
        yield _memory(record.memory)
    if record.discover:
        yield _discover(record.discover)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left", no_wrap=True)
    return table


def _steps(record: Record) -> Table:
    table = _table(
        f"{record.method}, {record.benchmark}, batch {record.config['batch_size']}: training step on "
        f"{record.hardware}; a matrix product in {record.precision} runs at "
        f"{_number(record.matrix_product.tflops)} TFLOP/s",
        *("", "ms", "images/s", "TFLOP/s", "GiB", "share", *SPLIT),
    )
    rows: dict[str, StepSpeed | BaselineSpeed] = {}
    if record.step:
        rows |= record.step.modes
    if record.baseline:
        rows[f"straightforward, {record.baseline.workers} workers"] = record.baseline
    for name, speed in rows.items():
        parts = speed.split_ms or {}
        share = f"{speed.share_of_matrix_product:.0%}"
        table.add_row(name, *_rates(speed), share, *(_number(parts.get(part)) for part in SPLIT))
    return table


def _terms(terms: Terms) -> Table:
    title = f"parts of a step, batch {terms.batch_size}: ms"
    table = _table(title, "", "ours", "straightforward", "times as long")
    ratios = {"augmentation": terms.augmentation, "sinkhorn": terms.sinkhorn, "losses": terms.losses}
    for name, ratio in ratios.items():
        table.add_row(name, *map(_number, (ratio.ours_ms, ratio.straightforward_ms, ratio.times_as_long)))
    return table


def _inter(rows: list[InterRow]) -> Table:
    """A table with only the columns that were measured."""
    ways = {"closed_form": "closed form", "matrix_product": "matrix product", "loops": "loops"}
    units = {"ms": "ms", "graph_ms": "graph ms", "peak_mib": "MiB"}
    columns = {
        f"{title}\n{unit}": [_number(getattr(getattr(row, way), key, None)) for row in rows]
        for way, title in ways.items()
        for key, unit in units.items()
    }
    columns = {title: cells for title, cells in columns.items() if any(cells)}
    table = _table("inter-class term of one view and head, forward and backward", "N = M", "C", *columns)
    for number, row in enumerate(rows):
        table.add_row(str(row.N), str(row.C), *(cells[number] for cells in columns.values()))
    return table


def _evaluation(found: Evaluation) -> Table:
    table = _table("both protocols", "images", "seconds", "images/s")
    table.add_row(f"{found.images:,}", _number(found.seconds), f"{found.images_per_second:,.0f}")
    return table


def _kmeans(found: KMeansSpeed) -> Table:
    table = _table(
        f"k-means on {found.samples:,} samples of {found.features} features: seconds for "
        f"{found.restarts} restarts with each of {', '.join(map(str, found.clusters))} clusters",
        *("", "ours", "scikit-learn", "times as long", "inertia, ours to theirs"),
    )
    for name, row in {"semi-supervised": found.semi_supervised, "plain": found.plain}.items():
        if row:
            numbers = (row.ours_seconds, row.scikit_learn_seconds, row.times_as_long)
            table.add_row(name, *map(_number, numbers), f"{row.inertia_ratio:.4f}")
    return table


def _methods(rows: dict[str, MethodSpeed], title: str) -> Table:
    table = _table(
        title, "method", "mode", "batch", "ms", "images/s", "TFLOP/s", "GiB", "largest loss difference"
    )
    for name, row in rows.items():
        difference = _number(row.largest_loss_difference)
        table.add_row(name, row.mode, str(row.batch_size), *_rates(row), difference)
    return table


def _embed(rows: dict[str, EmbedSpeed], hardware: str) -> Table:
    first = next(iter(rows.values()))
    table = _table(
        f"embedding files ({first.images}) on {hardware}: images/s",
        *("encoder", "ours", f"plain loop, {first.workers} workers", "times as fast", "network alone"),
    )
    for name, row in rows.items():
        rates = (row.images_per_second, row.straightforward_images_per_second)
        cells = (*rates, row.times_as_fast, row.network_images_per_second)
        table.add_row(name, *map(_number, cells))
    return table


def _memory(rows: list[EmbedMemory]) -> Table:
    table = _table("newfound embed", "images", "peak MiB", "seconds")
    for row in rows:
        table.add_row(f"{row.images:,}", _number(row.peak_mib), _number(row.seconds))
    return table


def _discover(rows: list[DiscoverTime]) -> Table:
    table = _table("newfound discover", "call", "seconds")
    for row in rows:
        table.add_row(row.call, _number(row.seconds))
    return table


def _rates(speed: Speed) -> tuple[str, str, str, str]:
    memory = speed.peak_memory_gib
    return (
        _number(speed.ms),
        f"{speed.images_per_second:,.0f}",
        _number(speed.tflops),
        "" if memory is None else f"{memory:.2f}",
    )


def _number(value: float | None) -> str:
    """The number with three significant digits, or more before the point; empty for None."""
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
