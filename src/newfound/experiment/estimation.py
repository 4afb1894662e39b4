"""How many novel classes there are: a network that misses some known classes, its features, an algorithm."""

import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from newfound.core.paths import checked_path
from newfound.core.records import Say
from newfound.core.seed import generator
from newfound.data.images import Dataset, ImageSet, Split
from newfound.engine.claim import claimed
from newfound.engine.files import check_writable
from newfound.estimate.algorithms import ALGORITHMS, resolved
from newfound.estimate.probe import hide_classes
from newfound.estimate.trial import Features, Trial, most_extra
from newfound.estimate.warnings import warnings_for
from newfound.experiment.check import check_run
from newfound.experiment.estimate_record import EstimateRecord
from newfound.experiment.folder import Folder
from newfound.experiment.model import build_stage
from newfound.experiment.provenance import provenance
from newfound.experiment.question import USUAL, Question, unnumbered
from newfound.experiment.run import Run, Stopped, Watch
from newfound.experiment.source import Source
from newfound.experiment.telling import Lines, naming_arguments, voice, warn_of

WatchTrial = Callable[[Trial, int, int, float], None]
"""Told of each trial, how many are done, how many there are at most, and its seconds."""


def estimate(
    question: Question,
    split: Split,
    out: Path,
    cache: Path,
    *,
    resume: bool = False,
    watch: Watch = lambda record, scores: None,
    watch_trial: WatchTrial = lambda trial, done, of, seconds: None,
    say: Say = lambda line: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Estimate the number of novel classes, and return what `out`/estimate.json holds then.

    Neither the truth of the unlabelled images, which no split has, nor the number in this one is looked at.
    """
    split, num_known = unnumbered(split), split.task.num_known
    config = resolved(question.config, num_known)
    algorithm, question = ALGORITHMS[config.algorithm], replace(question, config=config)
    record = EstimateRecord(out, question.as_dict(), split)
    record.open(resume)
    if record.finished:
        return record.content
    num_hidden = algorithm.num_hidden(num_known, config)
    shown, labelled, classes = _parts(split, num_hidden)
    check_run(question.recipe, shown)
    check_writable(record.path)
    out.mkdir(parents=True, exist_ok=True)
    _claim = claimed(out)  # until this returns
    record.note(num_known=num_known, num_hidden=num_hidden)

    dataset = Dataset(out.name, shown, None, (), (), "")
    run = Run(Folder(out / "probe"), dataset, question.recipe, watch=watch, say=say, should_stop=should_stop)
    encoded = _encoder(run, cache)
    features = Features(encoded(labelled), classes.to(run.device), encoded(split.unlabelled))
    random = generator(run.device, question.recipe.run.seed, "estimate")
    most = most_extra(len(split.unlabelled), config)
    start, of = time.perf_counter(), algorithm.most_trials(most)
    for trial in algorithm.trials(features, config, random, done := record.trials):
        if trial.extra not in done:
            seconds, start = time.perf_counter() - start, time.perf_counter()
            record.add(trial, seconds)
            watch_trial(trial, len(record.trials), of, seconds)
        if should_stop():
            raise Stopped
    found = algorithm.estimate(list(record.trials.values()))
    warnings = warnings_for(found, num_known, num_hidden, most)
    record.note(**asdict(found), warnings=warnings, **provenance(run.device))
    return record.content


def _parts(split: Split, num_hidden: int) -> tuple[Split, ImageSet, Tensor]:
    """What the network learns from, and the labelled images to be clustered with their classes."""
    return hide_classes(split, num_hidden) if num_hidden else (split, split.labelled, split.labels)


def _encoder(run: Run, cache: Path) -> Callable[[ImageSet], Tensor]:
    """Images → features (n, D) of the pretrained network, in evaluation mode."""
    weights, stage = run.pretrain(cache), run.recipe.pretraining[-1]
    learner = build_stage(stage, run.recipe, run.split.task, run.split.look, run.device)
    learner.adopt(weights)
    run.log.close()
    viewer = run.viewer(learner)
    return lambda images: viewer.over(images.to(run.device), learner.encoder)


def estimate_num_novel(
    dataset: Dataset,
    out: str | Path,
    *,
    method: str = USUAL,
    resume: bool = False,
    verbose: bool = True,
    **settings: Any,
) -> dict[str, Any]:
    """Estimate the number of novel classes of `dataset`, whatever number it was made with.

    Returns what `out`/estimate.json holds: `num_novel`, the range from `low` to `high`, and the `curve`.
    Settings are those of `newfound methods METHOD`, and of the estimate: `**{"estimate.max_novel": 30}`.
    How it goes is printed if `verbose`; what looks wrong with the images, and what `warnings` holds in the
    end, is warned of in any case.
    """
    source = replace(Source.of(dataset), num_novel=None, arrays=None)
    question, folder = Question.of(source, method, settings), checked_path(out, "out")
    say, cache = voice(verbose), folder.parent / "pretrained"
    if line := question.idle_line(settings):
        say(line)
    warn_of(dataset.warnings)
    with naming_arguments():
        found = told_estimate(question, dataset.split, folder, cache, resume=resume, say=say)
    warn_of(found["warnings"])
    return found


def told_estimate(
    question: Question, split: Split, out: Path, cache: Path, *, resume: bool = False, say: Say
) -> dict[str, Any]:
    """`estimate` with a line now and then of how it goes."""
    lines = Lines(say)
    return estimate(question, split, out, cache, resume=resume, watch=lines, watch_trial=lines.trial, say=say)
