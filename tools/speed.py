"""The recorded benchmarks under results/bench as Markdown, one section for each part of a record."""

from collections.abc import Iterator
from pathlib import Path

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
    Steps,
    Terms,
)
from newfound.core.files import read_record


def speed_section(results: Path) -> str:
    """All recorded benchmarks, those of a GPU first."""
    paths = list((results / "bench").glob("*.json"))
    paths.sort(key=lambda path: (path.name[:3] == "cpu", path))
    return "\n\n".join(text for path in paths for text in _texts(path))


def _texts(path: Path) -> Iterator[str]:
    """The parts of a record; of one with both steps only these, since its other parts are small samples."""
    record = read_record(path, Record)
    where = f"one run on {record.hardware} (`results/{path.parent.name}/{path.name}`)"
    if record.step and record.baseline:
        title = f"{record.method}, {record.benchmark}, batch {record.step.batch_size}, {where}:"
        yield _step(title, record.step, record.baseline, record.terms)
        return
    if record.methods:
        note = f"\n\nThis was {record.note}." if record.note else ""
        yield _methods(f"Every method, {record.benchmark}, {where}:", record.methods) + note
    if record.inter:
        yield _inter(record.inter, where)
    if record.evaluation:
        yield _evaluation(record.evaluation, where)
    if record.kmeans:
        yield _kmeans(record.kmeans, where)
    if record.embed:
        yield _embed(record.embed, where)
    if record.memory:
        yield _memory(record.memory, where)
    if record.discover:
        yield _discover(record.discover, where)


def _step(title: str, steps: Steps, baseline: BaselineSpeed, terms: Terms | None) -> str:
    """Our training step in each mode, and the straightforward one."""
    rows: dict[str, Speed] = {f"ours, {mode}": speed for mode, speed in steps.modes.items()}
    rows["straightforward"] = baseline
    lines = [title, "", "| training step | ms | images/s | times as fast |", "|---|---|---|---|"]
    for name, speed in rows.items():
        times = baseline.ms / speed.ms
        lines.append(f"| {name} | {speed.ms:.1f} | {speed.images_per_second:,.0f} | {times:.1f} |")
    return "\n".join([*lines, *(["", _terms_line(terms)] if terms else [])])


def _terms_line(terms: Terms) -> str:
    ratios = {"augmentation": terms.augmentation, "Sinkhorn": terms.sinkhorn, "losses": terms.losses}
    times = ", ".join(f"{name} {ratio.times_as_long:.1f}" for name, ratio in ratios.items())
    return f"Speed-up over the straightforward version, batch {terms.batch_size}: {times}."


def _methods(title: str, rows: dict[str, MethodSpeed]) -> str:
    """A training step of every method."""
    lines = [title, "", "| training step | mode | batch | ms | images/s |", "|---|---|---|---|---|"]
    for name, row in rows.items():
        numbers = f"{row.batch_size} | {row.ms:.1f} | {row.images_per_second:,.0f}"
        lines.append(f"| `{name}` | {row.mode} | {numbers} |")
    return "\n".join(lines)


def _kmeans(found: KMeansSpeed, where: str) -> str:
    """The clusterings of an estimate, ours and scikit-learn's."""
    ratio = found.semi_supervised.times_as_long
    times = f"{ratio:.1f} times as fast as the same work with scikit-learn's functions"
    if found.plain:
        times += f" and, without anchors, {found.plain.times_as_long:.1f} times as fast as its `KMeans`"
    clusters = ", ".join(map(str, found.clusters))
    return (
        f"Semi-supervised k-means of `newfound estimate`, {found.samples:,} samples of {found.features} "
        f"features, {found.restarts} restarts with each of {clusters} clusters, {where}: {times}."
    )


def _inter(rows: list[InterRow], where: str) -> str:
    """The inter-class term: closed form, matrix product (captured, on a GPU) and loops."""
    looped = [(row, row.loops.times_as_long) for row in rows if row.loops]
    largest, times = max(looped, key=lambda pair: pair[0].N * pair[0].C)
    captured = ", captured" if largest.matrix_product.graph_times_as_long else ""
    lines = [
        f"The paper's matrix product for the inter-class term relative to our closed form, {where}. Nested "
        f"loops over {largest.N} known and {largest.M} novel images of {largest.C:,} classes take "
        f"{times:,.0f} times as long:",
        "",
        f"| images of each kind | classes | times as long{captured} | times as much memory |",
        "|---|---|---|---|",
    ]
    for row in rows:
        product = row.matrix_product
        longer = product.graph_times_as_long or product.times_as_long
        lines.append(f"| {row.N:,} | {row.C:,} | {longer:.1f} | {product.times_as_much_memory:.1f} |")
    return "\n".join(lines)


def _evaluation(found: Evaluation, where: str) -> str:
    return f"Evaluating {found.images:,} images with both protocols, {where}: {found.seconds:.1f} s."


def _embed(rows: dict[str, EmbedSpeed], where: str) -> str:
    """Our embedding of files, and a plain loop that does the same."""
    first = next(iter(rows.values()))
    lines = [
        f"Embedding files ({first.images}) compared with a plain loop over a `DataLoader` of {first.workers} "
        f"workers, in images/s, with random weights, {where}:",
        "",
        "| encoder | ours | plain loop | times as fast | network alone |",
        "|---|---|---|---|---|",
    ]
    for name, row in rows.items():
        rates = f"{row.images_per_second:,.0f} | {row.straightforward_images_per_second:,.0f}"
        rest = f"{row.times_as_fast:.1f} | {row.network_images_per_second:,.0f}"
        lines.append(f"| {name} | {rates} | {rest} |")
    return "\n".join(lines)


def _memory(rows: list[EmbedMemory], where: str) -> str:
    peaks = ", ".join(f"{row.peak_mib:,.0f} MiB with {row.images:,} images" for row in rows)
    return f"Peak memory of `newfound embed`, {where}: {peaks}."


def _discover(rows: list[DiscoverTime], where: str) -> str:
    lines = [f"Whole calls of `newfound discover`, {where}:", "", "| data | seconds |", "|---|---|"]
    return "\n".join([*lines, *(f"| {row.call} | {row.seconds:.0f} |" for row in rows)])
