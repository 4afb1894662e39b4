"""The verbs that discover classes or prepare for it: discover, plan, estimate, embed."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from newfound.cli import options as opt
from newfound.cli.console import console, show_data, show_left_out, show_warnings
from newfound.cli.progress import Progress, cpu_advice
from newfound.cli.results import curve_table, show_results
from newfound.cli.signals import Stopping
from newfound.core import dist
from newfound.core.errors import UsageError, check_known
from newfound.core.settings import Overrides
from newfound.core.source import Source
from newfound.data.dataset import Dataset, counted
from newfound.data.folders import usual_side
from newfound.estimate.trial import PREFIX, EstimateConfig
from newfound.report.figures import draw_estimate, verdict
from newfound.review.next import Only, next_source
from newfound.review.page import write_page
from newfound.review.review import Review
from newfound.run.embed import embed as embed_files
from newfound.run.folder import Folder
from newfound.run.frozen import foresee_data, load_data
from newfound.run.models import Estimate, Results
from newfound.run.parts import Workers
from newfound.run.recipe import split_settings
from newfound.run.run import Run, check_folder, request_of
from newfound.run.start import Start, precedent, start
from newfound.run.trained import Pictures, has_pictures

EPILOGS = {
    "estimate": "Settings of the estimate: "
    + "; ".join(
        f"{PREFIX}{each.name}={each.default} ({each.metadata['meaning']})" for each in fields(EstimateConfig)
    )
}
"""Verb → what its help ends with."""
IMAGES = (
    *("data", "data_dir", "subset", "labelled", "unlabelled", "size", "strict", "num_novel"),
    *("embeddings", "pile"),
)
"""The options of discover that name its images, in the order that `source_of` takes them."""
MANY = 10_000
"""A run on so many files that does not fit into memory or onto the disk is refused before they are read."""


def discover(
    method: opt.AnyMethod = None,
    settings: opt.Settings = None,
    *,
    data: opt.Data = None,
    data_dir: opt.DataDir = None,
    subset: opt.Subset = None,
    labelled: opt.Labelled = None,
    unlabelled: opt.Unlabelled = None,
    embeddings: opt.Embeddings = None,
    num_novel: opt.NumNovel = None,
    pile: opt.Pile = None,
    size: opt.Size = None,
    strict: opt.Strict = False,
    follows: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="RUN",
            help="Continue from a reviewed run: its labelled images, and those whose class was named or "
            "accepted, are labelled; all others, and those of --unlabelled or --embeddings, form the pile.",
        ),
    ] = None,
    only: Annotated[
        Only | None,
        typer.Option(
            help="With --from: all images in a class, named or not, are labelled; only the unsorted and the "
            "new ones form the pile; new images with a class in a CSV are left out."
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(metavar="STAGE", help="Only pretrain, up to this stage, and cache the weights."),
    ] = None,
    pretrained: Annotated[
        Path | None,
        typer.Option(help="Start from this checkpoint, of newfound or of the published UNO or IIC code."),
    ] = None,
    out: opt.Out = None,
    resume: opt.Resume = False,
    stop_after: opt.StopAfter = None,
) -> None:
    """Discover the novel classes, and write results, assignments and, for your images, a page."""
    images = data, data_dir, subset, labelled, unlabelled, size, strict, num_novel, embeddings, pile
    source = _source(follows, only, out, *images)
    method, overrides = opt.method_and_settings(method, settings)
    if pretrained is not None:
        overrides["pretrained"] = str(pretrained)
    with _opened(source, method, overrides, out, resume, stop_after, auto=num_novel == opt.AUTO) as run:
        if until is not None:
            check_known(f"pretraining stage of {run.recipe.method}", until, run.recipe.pretraining)
            run.pretrain(until)
            console().print(f"Pretrained weights are cached in {run.folder.cache}.")
            return
        if run.data.num_novel is None:
            show_estimate(run.estimate(then_discover=True), run.folder)
        results = run.discover()
    _show(results, run)


@wraps(discover, assigned=("__annotations__",))
def plan(**options: Any) -> None:
    """Estimate the memory, disk space and time that discover needs with the same arguments."""
    where = (options[name] for name in ("follows", "only", "out"))
    source = _source(*where, *(options[name] for name in IMAGES))
    method, overrides = opt.method_and_settings(options["method"], options["settings"])
    auto = options["num_novel"] == opt.AUTO
    folder, begin, _ = _begun(source, method, overrides, options["out"], options["resume"], auto)
    data, seconds = foresee_data(begin.source, folder.cache, begin.recipe.run.device)
    console().print(data.note)
    needed = Run(folder, _unknown(data) if auto else data, begin.recipe).plan(seconds)
    for line in needed.lines:
        console().print(line)
    needed.check(folder.path)


def _source(follows: Path | None, only: Only | None, out: Path | None, *images: Any) -> Source:
    """The images that the options of discover name, in the order of `IMAGES`."""
    if follows is None and only:
        raise UsageError("--only needs --from.")
    if follows is None:
        return opt.source_of(*images)
    data, data_dir, subset, labelled, unlabelled, size, _, num_novel, embeddings, pile = images
    if out is None or any((data, data_dir, subset, labelled, size)):
        raise UsageError("--from needs --out, and no data options except --unlabelled or --embeddings.")
    number = opt.number_of(num_novel)
    return next_source(Review.open(follows), Folder(out), unlabelled, number, pile, embeddings, only)


def _show(results: Results, run: Run) -> None:
    """Print the results, and write the page of a user's own images."""
    show_results(results)
    console().print(f"written: {run.folder.results}, {run.folder.assignments}")
    if not run.source.has_truth and has_pictures(run.data.split.unlabelled):
        write_page(Review.open(run.folder.path), Pictures(run.data.split.unlabelled))
        console().print(f"Open {run.folder.report} to look at the classes.")


def estimate(
    method: Annotated[
        str | None, typer.Argument(help="The method whose pretraining provides the features.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Argument(help="Settings as key=value, for example pretrain.epochs=20 estimate.max_novel=30."),
    ] = None,
    *,
    data: opt.Data = None,
    data_dir: opt.DataDir = None,
    subset: opt.Subset = None,
    labelled: opt.Labelled = None,
    unlabelled: opt.Unlabelled = None,
    embeddings: opt.Embeddings = None,
    pile: opt.Pile = None,
    size: opt.Size = None,
    strict: opt.Strict = False,
    algorithm: Annotated[
        Literal["dtc", "gcd", "silhouette"] | None,
        typer.Option(
            help="By default silhouette on vectors; on images dtc, or gcd with few known classes or "
            "a mixed pile."
        ),
    ] = None,
    out: opt.Out = None,
    resume: opt.Resume = False,
    stop_after: opt.StopAfter = None,
) -> None:
    """Estimate the number of novel classes and its range; discover with the same --out reuses it."""
    source = opt.source_of(
        data, data_dir, subset, labelled, unlabelled, size, strict, embeddings=embeddings, pile=pile
    )
    method, overrides = opt.method_and_settings(method, settings)
    if algorithm is not None:
        overrides[f"{PREFIX}algorithm"] = algorithm
    with _opened(source, method, overrides, out, resume, stop_after, auto=True) as run:
        found = run.estimate()
    show_estimate(found, run.folder)


@contextmanager
def _opened(
    source: Source,
    method: str | None,
    settings: Overrides,
    out: Path | None,
    resume: bool,
    stop_after: float | None,
    *,
    auto: bool,
) -> Iterator[Run]:
    """A checked run that shows its progress; `auto` ignores a known number of novel classes."""
    folder, begin, search = _begun(source, method, settings, out, resume, auto)
    recipe = begin.recipe
    check_folder(folder, request_of(recipe, begin.source), resume, auto or _is_number_unknown(source))
    if begin.source.name == "own":
        unread, _ = foresee_data(begin.source, folder.cache)
        if len(unread.split.labelled) + len(unread.split.unlabelled) >= MANY:
            Run(folder, unread, recipe).plan().check(folder.path)
    with Stopping(stop_after, resume=True) as stopping:
        with dist.expecting(recipe.run.devices):
            data = load_data(begin.source, folder.cache, recipe.run.device, stopping)
        if auto:
            data = _unknown(data)
        show_data(data)
        with Progress(cpu_advice(recipe, data.split.look)) as progress:
            run = Run(
                folder,
                data,
                recipe,
                search=search,
                resume=resume,
                command=opt.typed_command(),
                watch=progress,
                should_stop=stopping,
            )
            run.check()
            yield run


def _begun(
    source: Source, method: str | None, settings: Overrides, out: Path | None, resume: bool, auto: bool
) -> tuple[Folder, Start, Overrides]:
    """The folder of a run, how it begins, and the settings of the estimate."""
    folder = Folder(out or Path("runs") / "-".join(filter(None, (source.title, method))))
    search, others = split_settings(settings) if auto or _is_number_unknown(source) else ({}, settings)
    begin = start(source, method, others, lambda: usual_side(source), precedent(folder, source, resume))
    return folder, begin, search


def _is_number_unknown(source: Source) -> bool:
    """Whether neither a benchmark nor the user gives the number of novel classes."""
    return source.benchmark is None and source.num_novel is None


def _unknown(data: Dataset) -> Dataset:
    """The data without its number of novel classes."""
    return replace(data, split=replace(data.split, num_novel=None))


def show_estimate(found: Estimate, folder: Folder) -> None:
    """Draw an estimate, and print its table, its verdict and its warnings."""
    figure = folder.estimate.with_suffix(".png")
    draw_estimate(found, figure)
    if found.num_novel:
        console().print(curve_table(found))
    console().print(f"Estimate: {verdict(found)}.")
    show_warnings(found.warnings)
    console().print(f"written: {folder.estimate}, {figure}")


def embed(
    images: Annotated[
        str,
        typer.Argument(
            help="The images: a folder, a CSV, a list or one file; tar files, part-{000..123}.tar; or a "
            "Hugging Face dataset, datasets:NAME:SPLIT. Files may be at an address such as s3://bucket/images."
        ),
    ],
    *,
    encoder: Annotated[
        str, typer.Option(help="A pretrained encoder, for example lite0; `newfound encoders` lists them.")
    ],
    out: Annotated[
        str, typer.Option(help="The folder for the Parquet files; images already in it are skipped.")
    ],
    views: Annotated[
        int,
        typer.Option(min=1, help="Vectors per image: the second of its mirror image, the others of crops."),
    ] = 1,
    strict: opt.Strict = False,
    engine: opt.AnyEngine = "local",
    address: opt.Address = None,
    workers: opt.Workers = None,
) -> None:
    """Embed images with a pretrained encoder, for --embeddings of discover, estimate and calibrate."""
    found = embed_files(images, encoder, out, views, strict, Workers(engine, address, workers))
    show_left_out(found.left_out)
    console().print(f"{out}: {counted(found.images, 'image')} embedded, {found.before:,} before")
