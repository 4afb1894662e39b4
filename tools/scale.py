"""The recorded cost of large sets as Markdown, and the projected cost of a hundred million images."""

from pathlib import Path

from benchmarks.loader import LoaderSpeed
from benchmarks.record import Record
from benchmarks.scale import METHODS, Scale
from newfound.core.files import read_record
from newfound.nn.encoders.lite0 import HEAD

LOADER = Path("loader.json")
MANY = 100_000_000


def scale_section(results: Path) -> str:
    """The cost of embedding, discovery and prediction, by the number of images or vectors."""
    found = read_record(results / "scale.json", Scale)
    calls = [*found.embeds, *found.discoveries, *found.predictions]
    lines = [
        f"`results/scale.json`, by `python -m benchmarks.scale` on {calls[0].hardware}; "
        f"{min(call.load for call in calls):.1f} to {max(call.load for call in calls):.1f} processes were "
        "ready to run on average, these included.",
        "",
        "| 64-pixel JPEG files in tar files through `newfound embed` | s | CPU s | images/s | "
        "images per CPU second | peak memory |",
        "|---|---|---|---|---|---|",
    ]
    for call in sorted(found.embeds, key=lambda each: each.number):
        rates = f"{call.number / call.seconds:,.0f} | {call.number / call.cpu_seconds:,.0f}"
        took = f"{call.seconds:,.0f} | {call.cpu_seconds:,.0f}"
        lines.append(f"| {call.number:,} | {took} | {rates} | {_size(call.peak_mib)} |")
    heads = "method | trained on | s | CPU s | peak memory | accuracy |"
    lines += ["", f"| vectors through `newfound discover` | {heads}", "|---|---|---|---|---|---|---|"]
    for data, noun in (("vectors", f"{found.features} features"), ("images", "of those images")):
        for method in METHODS:
            for run in sorted(found.discoveries, key=lambda each: each.number):
                if (run.data, run.method) == (data, method):
                    pile = run.number - run.number // 11
                    cells = (
                        f"{run.number:,}, {noun}",
                        f"`{method}`",
                        f"{min(run.sample, pile):,} of the pile's {pile:,}",
                        f"{run.seconds:,.0f}",
                        f"{run.cpu_seconds:,.0f}",
                        _size(run.peak_mib),
                        f"{100 * run.accuracy:.1f}",
                    )
                    lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "| vectors through `newfound predict` | s | CPU s | peak memory |", "|---|---|---|---|"]
    for call in sorted(found.predictions, key=lambda each: (each.data, each.number)):
        took = f"{call.seconds:,.0f} | {call.cpu_seconds:,.0f}"
        noun = f"{found.features} features" if call.data == "vectors" else "of those images"
        lines.append(f"| {call.number:,}, {noun} | {took} | {_size(call.peak_mib)} |")
    return "\n".join(lines)


def loader_section(results: Path) -> str:
    """The rates of our loader, of the step, of both together, and of torchvision's loader."""
    if not (results / LOADER).exists():
        return "On a GPU: not measured so far (`python -m benchmarks.loader`)."
    found = read_record(results / LOADER, LoaderSpeed)
    rows = {
        "our loader: decoded once for all crops, on the device": found.loader,
        f"training step of IIC ({found.mode}), crops included, from images on the device": found.step,
        "both together": found.both,
        f"{found.other_loader}, one crop": found.other_one_crop,
        f"{found.other_loader}, all crops": found.other_every_crop,
    }
    lines = [
        f"Training at 224 pixels from generated files ({found.file}), {found.workers} workers, "
        f"one run on {found.hardware} (`results/{LOADER.as_posix()}`):",
        "",
        "| | images/s |",
        "|---|---|",
        *(f"| {name} | {rate:,.0f} |" for name, rate in rows.items()),
    ]
    hours = f"IIC's schedule on ImageNet-30, discovery alone, would take {found.schedule_hours:,.0f} hours"
    return "\n".join(
        [
            *lines,
            "",
            f"{hours} at the rate of both together; pretraining, 100 epochs of the labelled images, comes on "
            "top. Our crops are cut from the central square.",
        ]
    )


def many_section(results: Path) -> str:
    """The projected cost of `MANY` images, extrapolated from the largest records; nobody has tried it."""
    found = read_record(results / "scale.json", Scale)
    embed, predict = (max(each, key=lambda call: call.number) for each in (found.embeds, found.predictions))
    embedded = read_record(results / "bench" / "h200-embed.json", Record).embed
    assert embedded is not None
    assigned = predict.number / predict.cpu_seconds
    rate, workers = embedded["lite0"].images_per_second, embedded["lite0"].workers
    cores, gpus, assigning = (
        MANY * embed.cpu_seconds / embed.number / 3600,
        MANY / rate / 3600,
        MANY / assigned / 3600,
    )
    rows = {
        f"embed, small encoder, 64 pixels: {embed.number / embed.cpu_seconds:,.0f} images per CPU second": (
            f"{cores:,.0f} core hours"
        ),
        f"embed, `lite0`, 224 pixels: {rate:,.0f} images/s on an H200 with {workers} cores, from "
        "image files on its own disk; tar files and Ray were not timed there": (
            f"{gpus:,.1f} hours on one, {gpus / 8:,.1f} on eight"
        ),
        f"the vectors of `lite0`, {HEAD:,} numbers of 2 bytes": f"{MANY * HEAD * 2 / 1e9:,.0f} GB",
        "discover, on a folder with some of the parts": "as in the table above",
        f"predict: {assigned:,.0f} vectors per CPU second, with the start of a call on {predict.number:,}": (
            f"{assigning:,.1f} core hours at most"
        ),
    }
    lines = [f"| {MANY:,} images | would take |", "|---|---|"]
    return "\n".join([*lines, *(f"| {what} | {cost} |" for what, cost in rows.items())])


def _size(mib: float) -> str:
    return f"{mib / 1024:.1f} GiB" if mib >= 1000 else f"{mib:.0f} MiB"
