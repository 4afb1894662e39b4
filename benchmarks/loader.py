"""The speed of training from files larger than memory: our loader, the step, both, and torchvision's loader.

    python -m benchmarks.loader --out results/loader.json

Generated JPEG files of ImageNet's size are read in the same way as `imagenet-30-a`: each image is decoded
once for all its crops, which are cut on the device. For comparison, torchvision's `ImageFolder` and
`DataLoader` cut one crop, as for training a classifier, or all of them, with the same number of workers;
without torchvision, Pillow does the same. Everything is measured in one run.
"""

import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from itertools import chain, count, islice, pairwise, repeat
from pathlib import Path
from typing import Any, TypeVar

import torch
from PIL import Image
from pydantic import BaseModel
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, RandomSampler

from benchmarks.baseline.loading import num_workers, resized_crop, to_tensor
from benchmarks.embed import SIZE, photographs
from benchmarks.measure import Machine, synchronise
from benchmarks.setup import FULL, SMALL, benchmark_shape
from benchmarks.step import ready_step
from newfound.core.files import write_record
from newfound.core.records import Views
from newfound.core.registry import recipe_for
from newfound.core.settings import Recipe
from newfound.data.dataset import Look, Split
from newfound.data.images import StreamedImages
from newfound.data.loader import Draw, Loader
from newfound.engine.device import precision_name, resolve_device, resolve_precision
from newfound.engine.step import Step
from newfound.run.provenance import provenance

T = TypeVar("T")
BENCHMARK = "imagenet-30-a"
SEED = 0
CLASSES = 64
"""The number of folders of files; labels cycle through the known classes."""
REPEATED = 64
"""How often each file is in a set, so that an epoch is long."""
LABELLED = 1_130_000
"""The approximate number of labelled images of the benchmark; an epoch is a pass over them."""


class LoaderSpeed(BaseModel):
    """The record in results/loader.json: images per second, with all crops unless stated otherwise."""

    commit: str
    versions: dict[str, str]
    hardware: str
    precision: str
    mode: str
    config: dict[str, object]
    seed: int
    files: int
    file: str
    workers: int
    loader: float
    """The rate of images decoded and on the device, not yet cropped."""
    step: float
    """The rate of steps on a batch that is on the device, crops included."""
    both: float
    other_loader: str
    other_one_crop: float
    """The rate of single crops of 224 pixels, normalised, on the host."""
    other_every_crop: float
    schedule_hours: float
    """The projected hours of IIC's discovery stage at the rate of `both`."""
    compile_seconds: float
    seconds: float


def main() -> None:
    parser = ArgumentParser(prog="python -m benchmarks.loader", description=__doc__)
    parser.add_argument("--files", type=int, default=8192)
    parser.add_argument("--seconds", type=float, default=15.0, help="approximate time of each measurement")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("settings", nargs="*", help="KEY=VALUE, settings of IIC and of the run")
    given = parser.parse_args()
    settings = dict(each.split("=", 1) for each in given.settings)
    found = measured(given.files, given.seconds, settings)
    write_record(given.out, found)
    print(found.model_dump_json(indent=2, exclude={"config", "versions"}))


def measured(files: int, seconds: float, settings: dict[str, str]) -> LoaderSpeed:
    """Generate the files and measure every rate."""
    began = time.perf_counter()
    recipe = recipe_for("iic", BENCHMARK, {"seed": SEED, **settings})
    device, train = resolve_device(recipe.run.device), recipe.train["discover"]
    precision = resolve_precision(recipe.run.precision, device)
    machine = Machine(device, precision, FULL if device.type == "cuda" else SMALL, 0.0)
    with photographs(files, CLASSES) as folder:
        paths = sorted(map(str, folder.rglob("*.jpg")))
        step = _step_on_files(paths, recipe, machine)
        loader = step.loader
        loading, stepping, both, compiling = _our_rates(step, seconds)
        name, transforms = _other(benchmark_shape(BENCHMARK)[1], loader.views)
        one_crop, every = (
            _other_rate(folder, transform, train.batch_size, seconds) for transform in transforms
        )
        print(f"{name}: {one_crop:,.0f} images/s with one crop, {every:,.0f} with all", flush=True)
        kilobytes = sum(Path(path).stat().st_size for path in paths) / len(paths) / 1000
    images = train.epochs * (LABELLED // loader.num_labelled) * loader.batch_size
    return LoaderSpeed(
        **provenance(device).model_dump(),
        precision=precision_name(precision),
        mode=step.mode,
        config={**recipe.flat()},
        seed=SEED,
        files=files,
        file=f"JPEG, {SIZE[0]} x {SIZE[1]} pixels, {kilobytes:.0f} kB",
        workers=num_workers(),
        loader=loading,
        step=stepping,
        both=both,
        other_loader=name,
        other_one_crop=one_crop,
        other_every_crop=every,
        schedule_hours=images / both / 3600,
        compile_seconds=compiling,
        seconds=time.perf_counter() - began,
    )


def _step_on_files(paths: list[str], recipe: Recipe, machine: Machine) -> Step:
    """A training step that reads one half of the files as labelled images, the other as unlabelled ones."""
    task, look = benchmark_shape(BENCHMARK)
    device, half = machine.device, len(paths) // 2
    labelled, unlabelled = (
        StreamedImages(each * REPEATED, (look.stored, look.stored), device, crop=True)
        for each in (paths[:half], paths[half:])
    )
    labels = torch.arange(len(labelled), device=device) % task.num_known
    split = Split(labelled, labels, unlabelled, task.num_known, task.num_novel, look)
    step = ready_step(recipe, split, machine, "graph" if device.type == "cuda" else "eager")
    assert step.loader.streamed
    step.loader.streamed.keep(0)  # every image is decoded, as in a first epoch
    return step


def _our_rates(step: Step, seconds: float) -> tuple[float, float, float, float]:
    """The rates of the loader, of the step and of both together, and the seconds of compilation."""
    loader, device = step.loader, step.device

    def train_on(pair: tuple[Draw, Draw]) -> None:
        step(*pair)

    loading = _rate(_draws(loader), loader.batch_size, seconds, device)
    print(f"loader {loading:,.0f} images/s", flush=True)
    one, other = islice(loader.draws(0), 2)
    for _ in range(8 if device.type == "cuda" else 1):  # compiled, captured, replayed
        step(one, other)
    compiling = step.take_compile_seconds()
    stepping = _rate(repeat((one, other)), loader.batch_size, seconds, device, train_on)
    print(f"step {stepping:,.0f} images/s, {step.mode}", flush=True)
    both = _rate(pairwise(_draws(loader)), loader.batch_size, seconds, device, train_on)
    print(f"both {both:,.0f} images/s", flush=True)
    return loading, stepping, both, compiling


def _draws(loader: Loader) -> Iterator[Draw]:
    """The draws of one epoch after another."""
    return chain.from_iterable(loader.draws(epoch) for epoch in count())


def _rate(
    items: Iterator[T],
    batch: int,
    seconds: float,
    device: torch.device,
    use: Callable[[T], None] = lambda item: None,
) -> float:
    """Images per second at a steady rate, over whole batches for at least `seconds`."""
    for item in islice(items, 3):
        use(item)
    synchronise(device)
    start, done = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        use(next(items))
        done += 1
    synchronise(device)
    return batch * done / (time.perf_counter() - start)


class _Files(Dataset[Any]):
    """A replacement for `ImageFolder` if torchvision is not installed."""

    def __init__(self, folder: Path, transform: Callable[[Image.Image], Any]) -> None:
        self.paths, self.transform = sorted(map(str, folder.rglob("*.jpg"))), transform

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, row: int) -> Any:
        with Image.open(self.paths[row]) as image:
            return self.transform(image.convert("RGB")), 0


def _other(look: Look, views: Views) -> tuple[str, list[Callable[[Image.Image], Any]]]:
    """The name of the other loader, and its transforms to one crop and to all crops of a step."""
    try:
        from torchvision import transforms as tv
    except ImportError:

        def one(image: Image.Image) -> Tensor:
            return to_tensor(resized_crop(image, look.size, (0.08, 1.0)), look.mean, look.std)

        return "Pillow and DataLoader", [one, lambda image: [one(image) for _ in range(views.count)]]
    plain = tv.Compose(
        [
            tv.RandomResizedCrop(look.size),
            tv.RandomHorizontalFlip(),
            tv.ToTensor(),
            tv.Normalize(look.mean, look.std),
        ]
    )
    return "torchvision's ImageFolder and DataLoader", [
        plain,
        lambda image: [plain(image) for _ in range(views.count)],
    ]


def _other_rate(folder: Path, transform: Callable[[Image.Image], Any], batch: int, seconds: float) -> float:
    try:
        from torchvision.datasets import ImageFolder as Files
    except ImportError:
        Files = _Files
    data = Files(folder, transform)
    batch = min(batch, len(data) // 8)
    rows = RandomSampler(data, replacement=True, num_samples=REPEATED * len(data))
    pinned = torch.cuda.is_available()
    loader = DataLoader(data, batch, sampler=rows, num_workers=num_workers(), pin_memory=pinned)
    return _rate(iter(loader), batch, seconds, torch.device("cpu"))


if __name__ == "__main__":
    main()
