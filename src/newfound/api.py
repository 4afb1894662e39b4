"""The Python API: each function builds a run, calls it and returns its record."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TextIO

import numpy as np
import torch
from numpy.typing import ArrayLike
from pydantic import PlainValidator
from torch import Tensor

from newfound.core import dist
from newfound.core.calls import public
from newfound.core.errors import DataError, UsageError, one_line
from newfound.core.files import AnyPath, AnyPlace
from newfound.core.settings import Overrides, Positive
from newfound.core.source import Engine, PileKind
from newfound.data import load
from newfound.data.dataset import Dataset
from newfound.data.images import ImageSet
from newfound.data.vectors import embedded
from newfound.metrics import clustering
from newfound.review.export import write_export
from newfound.review.next import Only, next_source
from newfound.review.page import write_page
from newfound.review.predict import predict_parts as sort_parts
from newfound.review.review import Predictions, Review
from newfound.run import trained
from newfound.run.embed import embed as embed_files
from newfound.run.events import LogProgress
from newfound.run.folder import Folder
from newfound.run.frozen import Embeddings
from newfound.run.models import Estimate, Results
from newfound.run.parts import PartsReport, Workers
from newfound.run.recipe import split_settings
from newfound.run.run import Run, check_folder, request_of, source_of
from newfound.run.start import precedent, start

log = logging.getLogger("newfound")
Given = Annotated[Dataset | None, PlainValidator(lambda given: given)]
"""A data set; `opened` checks that it is one."""


@public
def from_run(
    run: AnyPath,
    out: AnyPath,
    *,
    unlabelled: AnyPlace | None = None,
    embeddings: AnyPlace | None = None,
    num_novel: Positive | None = None,
    pile: PileKind | None = None,
    only: Only | None = None,
) -> Dataset:
    """The data set for the next run, in the folder `out`, after a review of `run`.

    Labelled images stay labelled; those of the pile are labelled if their class was named or accepted, or if
    they were moved into a class; with only="unsorted", all that are in a class. All others form the new pile,
    together with the `unlabelled` images: a folder, a CSV or a list. If `run` is on embeddings, pass those of
    new images as `embeddings`.
    """
    vectors = None if embeddings is None else str(embeddings)
    review, folder = Review.open(run), Folder(Path(out))
    return load(next_source(review, folder, unlabelled, num_novel, pile, vectors, only))


@public
def discover(
    method: str | None = None,
    data: Given = None,
    out: AnyPath = "",
    *,
    resume: bool = False,
    verbose: bool = True,
    **settings: Any,
) -> Results:
    """Find the novel classes of `data` and write `out`/results.json, assignments.csv and report.html.

    Photographs are embedded with the best installed encoder, unless the setting `encoder` names one. The
    default method is `centroids` on vectors, `iic` on images and `simgcd` on mixed piles of images. If the
    data set has no number of novel classes, it is estimated first. `newfound methods METHOD` lists the
    settings; pass `pretrain.epochs` as `**{"pretrain.epochs": 5}`. A run logs to the logger `newfound`;
    `verbose` prints that log to standard output.
    """
    with shown(verbose):
        run = opened(method, data, out, resume, settings)
        assert data is not None  # `opened` refuses that
        return discovered(run, data.split.unlabelled)


@public
def opened(method: str | None, data: Given, out: AnyPath, resume: bool, settings: Overrides) -> Run:
    """A run on the data set, or on vectors of its images, in a folder that was checked."""
    if not isinstance(data, Dataset) or "num_novel" in settings:
        raise UsageError(
            "Pass a data set made by newfound.from_arrays, from_embeddings or from_folders, which also take "
            "num_novel."
        )
    search, others = split_settings(settings)
    folder = Folder(Path(out))
    given, side = source_of(data), data.split.look.stored
    begin = start(given, method, others, lambda: side, precedent(folder, given, resume))
    recipe = begin.recipe
    check_folder(folder, request_of(recipe, begin.source), resume, data.num_novel is None)
    if begin.source.frozen:
        data = embedded(data, Embeddings(begin.source, folder.cache, recipe.run.device))
        data = replace(data, size_reason=f"by {begin.source.frozen}")
    elif begin.source.size != given.size:
        with dist.expecting(recipe.run.devices):
            data = load(begin.source, cache=folder.cache)
    split = replace(data.split, pile=begin.source.pile or data.split.pile)
    data = replace(data, split=split, source=begin.source)
    return Run(folder, data, recipe, search=search, resume=resume, watch=LogProgress())


def discovered(run: Run, images: ImageSet) -> Results:
    """Run discovery, write the page with the unlabelled `images`, and log what was found."""
    tell_about(run.data)
    results = run.discover()
    if not run.source.has_truth and trained.has_pictures(images):
        write_page(Review.open(run.folder.path), trained.Pictures(images))
        log.info("open %s to see the classes", run.folder.report)
    log.info("images in each novel class: %s", ", ".join(map(str, results.cluster_sizes)))
    for warning in results.warnings:
        log.warning(warning)
    return results


@public
def estimate_num_novel(
    data: Given, out: AnyPath, *, method: str | None = None, verbose: bool = True, **settings: Any
) -> Estimate:
    """Estimate the number of novel classes: `num_novel`, the range `low` to `high`, and the `curve`.

    An interrupted estimate resumes by itself, and a later `discover` in the same folder uses the result.
    Settings are those of the method, whose pretraining provides the features, and those of the estimate, for
    example `**{"estimate.max_novel": 30}`.
    """
    with shown(verbose):
        run = opened(method, data, out, False, settings)
        tell_about(run.data)
        found = run.estimate()
        for warning in found.warnings:
            log.warning(warning)
    return found


@public
def embed(
    images: AnyPlace,
    encoder: str,
    out: AnyPlace,
    *,
    views: Positive = 1,
    strict: bool = False,
    engine: Engine = "local",
    address: str | None = None,
    workers: Positive | None = None,
    verbose: bool = True,
) -> PartsReport:
    """Embed images into Parquet files in the folder `out`.

    `images` is a folder, a CSV or a list of files, WebDataset tar files (a folder of them, or
    `part-{000..123}.tar`), all of them here or at a URL that fsspec reads, or a Hugging Face dataset
    (`datasets:NAME:SPLIT`).

    `encoder` names a pretrained encoder, for example `lite0`. Images that have a vector in `out` are skipped,
    so the same call resumes an interrupted one. With several `views`, an image also has vectors of its mirror
    image and of random crops. With `strict`, a file that cannot be read is an error. The engine `ray` runs
    that many `workers` on the cluster at `address`, or on this machine if there is no address.
    """
    with shown(verbose):
        return embed_files(images, encoder, out, views, strict, Workers(engine, address, workers))


@public
def predict(run: AnyPath, images: AnyPlace, *, strict: bool = False) -> Predictions:
    """Predict the class, known or novel, of each new image.

    `images` is anything that `embed` takes, a single file, or embeddings.
    """
    return Review.open(run).predict(images, strict)


@public
def predict_parts(
    run: AnyPath,
    images: AnyPlace,
    out: AnyPlace,
    *,
    strict: bool = False,
    engine: Engine = "local",
    address: str | None = None,
    workers: Positive | None = None,
    verbose: bool = True,
) -> PartsReport:
    """Predict the classes of any number of images, into Parquet files in the folder `out`, one per part.

    `images` is anything that `embed` takes, or embeddings; both may be in an object store. Images that are in
    `out` are skipped, so the same call resumes an interrupted one. `engine`, `address` and `workers` work as
    in `embed`.
    """
    with shown(verbose):
        where = Workers(engine, address, workers)
        return sort_parts(Review.open(run), str(images), str(out), strict, where)


@public
def export(run: AnyPath, out: AnyPath, form: str | None = None, link: str | None = None) -> dict[str, str]:
    """Write the pile of a finished run with its classes: as a table, as folders, or for another tool.

    `form` is csv, json, parquet, coco, folders, label-studio, fiftyone or imagefolder; by default the suffix
    of `out` decides. Images are copied into folders, unless `link` is hardlink or symlink. Returns class →
    folder for each class whose folder has another name.
    """
    return write_export(Review.open(run), Path(out), form, link)


def tell_about(data: Dataset) -> None:
    """Log what was loaded and what looks wrong with it."""
    log.info(data.note)
    for warning in data.warnings:
        log.warning(warning)


class _Lines(logging.StreamHandler[TextIO]):
    """Adds hints, and escapes control characters, which file names in messages may contain."""

    def format(self, record: logging.LogRecord) -> str:
        hint = getattr(record, "hint", None)
        return one_line(f"{super().format(record)} {hint.value}" if hint else super().format(record))


@contextmanager
def shown(verbose: bool) -> Iterator[None]:
    """Print the log to standard output, unless the caller's own handlers show it.

    A level that the caller has set on the logger `newfound` is kept.
    """
    if not verbose or log.handlers or (log.hasHandlers() and log.isEnabledFor(logging.INFO)):
        yield
        return
    handler, level, propagate = _Lines(sys.stdout), log.level, log.propagate
    log.addHandler(handler)
    log.setLevel(level or logging.INFO)
    log.propagate = False  # handlers of the root logger would show every line again
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
        log.propagate = propagate


@public
def hungarian_accuracy(predicted: ArrayLike | Tensor, true: ArrayLike | Tensor) -> float:
    """The share of samples that the best one-to-one match of clusters (n,) with classes (n,) gets right."""
    given = [np.asarray(each.cpu() if isinstance(each, Tensor) else each) for each in (predicted, true)]
    shapes = [each.shape for each in given]
    if shapes[0] != shapes[1] or len(shapes[0]) != 1 or not given[0].size:
        raise DataError(
            f"Clusters and classes must both have the shape (n,), got {shapes[0]} and {shapes[1]}."
        )
    ids = (torch.from_numpy(np.unique(each, return_inverse=True)[1]) for each in given)
    return clustering.hungarian_accuracy(*ids)
