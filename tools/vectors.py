"""The recorded runs on vectors of a frozen encoder, and from other starts, as Markdown."""

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from newfound.lab.recorded import ACC, Measured, load_records, over
from newfound.run.models import Results
from newfound.run.recipe import VECTOR_METHOD

ENCODER = "lite0"
BENCHMARKS = {
    "cifar10": "CIFAR10, 5 + 5",
    "cifar100-20": "CIFAR100, 80 + 20",
    "cifar100-50": "CIFAR100, 50 + 50",
}
METHODS = {
    "kmeans": "k-means",
    "uno-v2": "UNO v2",
    "iic": "IIC",
    VECTOR_METHOD: f"`{VECTOR_METHOD}`, the default",
}
MIXED = ("kmeans", "gcd", "simgcd", "uno-v2", "iic", VECTOR_METHOD)
MIXED_BENCHMARKS = ("cifar10-mixed", "cifar100-20-mixed")
RECOGNITION = {
    "all": "all",
    "known": "known",
    "novel": "novel",
    "recognised": "known as known",
    "mistaken": "novel as known",
}
STARTS = {"last-block": "last block", "all": "whole encoder", "scratch": "from scratch"}
SHOTS = (20, 100, 500)


def vectors_section(results: Path) -> str:
    """A row for each method: accuracy, worst seed and seconds on two cores, on every benchmark."""
    records, seconds = _records(results), _seconds(results)
    heads = " | ".join(f"{title} | worst | s" for title in BENCHMARKS.values())
    lines = [f"| | {heads} |", "|---|" + "---|---|---|" * len(BENCHMARKS)]
    for method, title in METHODS.items():
        cells = []
        for benchmark in BENCHMARKS:
            found = _measured(records, benchmark, method)
            taken = seconds.get((benchmark, method))
            cells += [str(found or ""), f"{min(found.values):.1f}" if found else ""]
            cells.append(f"{taken:.0f}" if taken else "")
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def headline(results: Path) -> str:
    """A sentence on how much better the default is than k-means on the same vectors."""
    records, parts = _records(results), []
    for benchmark, title in BENCHMARKS.items():
        ours, plain = (_measured(records, benchmark, method) for method in (VECTOR_METHOD, "kmeans"))
        if ours and plain:
            parts.append(
                f"{ours.mean:.1f} against {plain.mean:.1f} on {title} ({ours.mean - plain.mean:+.1f})"
            )
    return (
        f"On the vectors of a frozen `{ENCODER}`, the default `{VECTOR_METHOD}` finds the novel classes "
        f"better than k-means does. Task-aware ACC in %, mean of five seeds: {'; '.join(parts)}. "
        "The encoder was trained on ImageNet, whose classes overlap with CIFAR's, and five choices within "
        f"`{VECTOR_METHOD}` were made on random cuts of all classes of CIFAR100."
    )


def mixed_section(results: Path) -> str:
    """A table for each benchmark: accuracies, the shares taken for known, calibration error, seconds."""
    records = _records(results)
    lines = list[str]()
    for benchmark in MIXED_BENCHMARKS:
        lines += ["", f"| {benchmark} | {' | '.join(RECOGNITION.values())} | confidence off by | s |"]
        lines.append("|---|" + "---|" * (len(RECOGNITION) + 2))
        for method in MIXED:
            if found := _of(records, benchmark, method):
                cells = [str(over(found, f"generalised.train.{part}") or "") for part in RECOGNITION]
                off = [100 * each.calibration.error for each in found if each.calibration.error is not None]
                cells += [
                    f"{fmean(off):.1f}" if off else "",
                    f"{fmean(e.discovery.seconds for e in found):.0f}",
                ]
                lines.append(f"| `{method}` | {' | '.join(cells)} |")
    return "\n".join(lines[1:])


def starts_section(results: Path) -> str:
    """Frozen, last block, whole encoder and from scratch, for each number of labelled images."""
    frozen, trained = _records(results), load_records(results / "starts")
    names = [f"cifar100-20-{shots}shot" for shots in SHOTS]
    lines = [f"| | {' | '.join(f'{shots} labelled images a class' for shots in SHOTS)} |"]
    lines.append("|---|" + "---|" * len(SHOTS))
    for method in (VECTOR_METHOD, "uno-v2"):
        cells = [str(_measured(frozen, name, method) or "") for name in names]
        lines.append(f"| frozen, `{method}` | {' | '.join(cells)} |")
    for start, title in STARTS.items():
        cells = [_trained(trained, name, start) for name in names]
        lines.append(f"| {title}, `uno-v2` | {' | '.join(cells)} |")
    published = over(_of(load_records(results), "cifar100-20", "iic"), ACC)
    lines.append(f"| from scratch, `iic`, published schedule | | | {published or ''} |")
    return "\n".join(lines)


def _trained(records: Sequence[Results], benchmark: str, start: str) -> str:
    """The accuracy of the run from a start, and its epochs of pretraining and discovery."""
    wanted = {"scratch": ("auto", "all")}.get(start, (ENCODER, start))
    for each in _of(records, benchmark, "uno-v2", ("custom",)):
        if (each.config["encoder"], each.config["trains"]) == wanted:
            epochs = f"{each.config['pretrain.epochs']} + {each.config['epochs']} epochs"
            return f"{over([each], ACC)}, {epochs}"
    return "not run"


def _seconds(results: Path) -> dict[tuple[str, str], float]:
    """(benchmark, method) → seconds of a run on two cores; for UNO and IIC from a tenth of the epochs."""
    found = {
        (row["benchmark"], row["method"]): row["seconds"] / row["runs"]
        for row in json.loads((results / "vectors" / "two-cores.json").read_text(encoding="utf-8"))["rows"]
    }
    full = {each.method: _epochs(each) for each in _of(_records(results), "cifar100-20")}
    for each in load_records(results / "vectors" / ENCODER):
        if each.recipe == "custom":
            longer = full[each.method] / _epochs(each)
            before = sum(stage.seconds for stage in each.reused.values())
            found[each.benchmark, each.method] = before + longer * each.timing["discover"].seconds
    return found


def _epochs(record: Results) -> int:
    return int(str(record.config["epochs"]))


def _records(results: Path) -> list[Results]:
    return [each for each in load_records(results / "vectors" / ENCODER) if each.recipe != "custom"]


def _of(
    records: Sequence[Results],
    benchmark: str,
    method: str = "",
    recipes: Sequence[str] = ("published", "newfound"),
) -> list[Results]:
    return [
        each
        for each in records
        if each.benchmark == benchmark and method in ("", each.method) and each.recipe in recipes
    ]


def _measured(records: Sequence[Results], benchmark: str, method: str, path: str = ACC) -> Measured | None:
    return over(_of(records, benchmark, method), path)
