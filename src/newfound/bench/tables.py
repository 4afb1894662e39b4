"""A record of a benchmark as tables for the terminal."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich import box
from rich.table import Table

Record = Mapping[str, Any]
_PARTS = ("augmentation", "forward", "backward", "optimiser")


def bench_tables(record: Record) -> Iterator[Table]:
    """One table for each part that was measured."""
    if "step" in record or "baseline" in record:
        yield _steps(record)
    if "terms" in record:
        yield _terms(record["terms"])
    if "inter" in record:
        yield _inter(record["inter"])
    if "evaluation" in record:
        yield _evaluation(record["evaluation"])
    if "kmeans" in record:
        yield _kmeans(record["kmeans"])
    if "methods" in record:
        yield _methods(record)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left", no_wrap=True)
    return table


def _steps(record: Record) -> Table:
    product = record["matrix_product"]["tflops"]
    config = record["config"]
    table = _table(
        f"{record['method']}, {record['benchmark']}, batch {config['batch_size']}: ms of a training step on "
        f"{record['hardware']}; a matrix product in {record['precision']} runs at {_number(product)} TFLOP/s",
        *("way", "ms", "images/s", "TFLOP/s", "share", "GiB", *_PARTS),
    )
    ways = dict(record["step"]["modes"]) if "step" in record else {}
    if "baseline" in record:
        ways[f"straightforward, {record['baseline']['workers']} workers"] = record["baseline"]
    for name, each in ways.items():
        parts = each["split_ms"] or {}
        table.add_row(
            name,
            _number(each["ms"]),
            f"{each['images_per_second']:,.0f}",
            _number(each["tflops"]),
            f"{each['share_of_matrix_product']:.0%}",
            _gib(each),
            *(_number(parts[part]) if part in parts else "" for part in _PARTS),
        )
    return table


def _terms(terms: Record) -> Table:
    table = _table(
        f"ms for a batch of {terms['batch_size']}", "part", "ours", "straightforward", "times as long"
    )
    for name in ("augmentation", "sinkhorn", "losses"):
        each = terms[name]
        numbers = (each["ours_ms"], each["straightforward_ms"], each["times_as_long"])
        table.add_row(name, *map(_number, numbers))
    return table


def _inter(rows: list[Record]) -> Table:
    ways = {"closed_form": "closed form", "matrix_product": "matrix product", "loops": "loops"}
    keys = {"ms": "ms", "graph_ms": "graph ms", "peak_mib": "MiB"}
    shown = [(way, key) for way in ways for key in keys if any(key in row.get(way, ()) for row in rows)]
    table = _table(
        "inter-class term of one view and head, forward and backward",
        *("N = M", "C", *(f"{ways[way]}\n{keys[key]}" for way, key in shown)),
    )
    for row in rows:
        cells = (_number(row[way][key]) if way in row else "" for way, key in shown)
        table.add_row(str(row["N"]), str(row["C"]), *cells)
    return table


def _evaluation(each: Record) -> Table:
    table = _table("both protocols", "images", "seconds", "images/s")
    table.add_row(f"{each['images']:,}", _number(each["seconds"]), f"{each['images_per_second']:,.0f}")
    return table


def _kmeans(each: Record) -> Table:
    clusters = ", ".join(map(str, each["clusters"]))
    table = _table(
        f"k-means on {each['samples']:,} samples of {each['features']} features: seconds for "
        f"{each['restarts']} restarts with each of {clusters} clusters",
        *("", "ours", "scikit-learn", "times as long", "inertia, ours to theirs"),
    )
    for name in ("semi_supervised", "plain"):
        row = each[name]
        numbers = (row["ours_seconds"], row["scikit_learn_seconds"], row["times_as_long"])
        table.add_row(name.replace("_", "-"), *map(_number, numbers), f"{row['inertia_ratio']:.4f}")
    return table


def _methods(record: Record) -> Table:
    table = _table(
        f"every method that trains in discovery, on {record['benchmark']}: "
        f"ms of a training step on {record['hardware']}",
        *("method", "mode", "batch", "ms", "images/s", "TFLOP/s", "GiB", "losses differ by"),
    )
    for name, each in record["methods"].items():
        numbers = _number(each["ms"]), f"{each['images_per_second']:,.0f}", _number(each["tflops"])
        difference = _number(each["largest_loss_difference"]) if "reference" in each else ""
        table.add_row(name, each["mode"], str(each["batch_size"]), *numbers, _gib(each), difference)
    return table


def _gib(each: Record) -> str:
    peak = each["peak_memory_gib"]
    return "" if peak is None else f"{peak:.2f}"


def _number(value: float) -> str:
    """Three figures, more only before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
