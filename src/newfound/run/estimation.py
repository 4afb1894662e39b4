"""Estimate the number of novel classes, from vectors or from the features of a network."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b

import torch

import newfound
from newfound.core.errors import Hint, UsageError
from newfound.core.files import check_writable, write_record
from newfound.core.seed import generator
from newfound.core.settings import Overrides, Recipe
from newfound.core.source import PileKind, Source
from newfound.data.augment import evaluation_view
from newfound.data.dataset import Dataset, Split
from newfound.data.holdout import hide_classes
from newfound.data.vectors import in_memory
from newfound.engine.device import resolve_device
from newfound.estimate.dtc import FEWEST_KNOWN, dtc_estimate, dtc_trials, num_probes
from newfound.estimate.gcd import gcd_estimate, gcd_most_trials, gcd_trials
from newfound.estimate.peak import peak_estimate, peak_trials
from newfound.estimate.trial import (
    PREFIX,
    EstimateConfig,
    Features,
    Trial,
    Verdict,
    estimate_config,
    most_extra,
)
from newfound.run.events import Control, Stopped, TrialDone
from newfound.run.folder import Folder
from newfound.run.models import WIDE, Estimate, Settings
from newfound.run.preflight import preflight
from newfound.run.provenance import provenance
from newfound.run.recipe import build_stage, probe_recipe
from newfound.run.training import Training

log = logging.getLogger(__name__)
IRRELEVANT = {"num_novel", "estimated", "labelled", "unlabelled", "arrays"}
"""Fields of a source on which an estimate does not depend: the number itself and the images' location."""
FEW = 10
"""With fewer known classes than this, an estimate is only a hint."""


@dataclass(frozen=True)
class Algorithm:
    """An algorithm that goes from features to a number, one trial after another."""

    num_hidden: Callable[[int, EstimateConfig], int]
    """Number of known classes → how many to hide from the network; only their images are then labelled."""
    most_trials: Callable[[int], int] | None
    """Most extra clusters → most trials; None if all are made at once."""
    trials: Callable[[Features, EstimateConfig, torch.Generator, Mapping[int, Trial]], Iterator[Trial]]
    verdict: Callable[[Sequence[Trial]], Verdict]
    trained: bool = True
    """Whether a network is trained for the features; if not, they are the vectors themselves."""


ALGORITHMS = {
    "dtc": Algorithm(num_probes, lambda most: most + 1, dtc_trials, dtc_estimate),
    "gcd": Algorithm(lambda *_: 0, gcd_most_trials, gcd_trials, gcd_estimate),
    "silhouette": Algorithm(lambda *_: 0, None, peak_trials, peak_estimate, trained=False),
}
"""The algorithms by name."""


def estimate(
    folder: Folder,
    data: Dataset,
    recipe: Recipe,
    source: Source,
    search: Overrides,
    control: Control,
    ahead: float,
) -> Estimate:
    """Estimate the number of novel classes and write estimate/estimate.json.

    Neither the ground truth nor the number of novel classes in the data set is used. `ahead` is the work that
    follows the estimate.
    """
    split = replace(in_memory(data, recipe.run.sample, recipe.run.seed).split, num_novel=None)
    config = resolved(
        estimate_config(source.name, search), split.num_known, split.pile, split.look.kind == "vectors"
    )
    algorithm, probe = ALGORITHMS[config.algorithm], probe_recipe(recipe, source.name)
    num_hidden = algorithm.num_hidden(split.num_known, config)
    number = len(split.unlabelled)
    record = Estimate(
        newfound=newfound.__version__,
        method=recipe.method,
        source=source,
        settings=_settings(probe, config),
        images=next(_fingerprints(data.split)),
        sample=number if number < len(data.split.unlabelled) else None,
        num_known=split.num_known,
        num_hidden=num_hidden,
    )
    record = _continued(folder, record, data.split)
    if record.num_novel is not None:
        return record
    check_writable(folder.estimate)
    with folder.inner("estimate").locked():
        write_record(folder.estimate, record)
        if algorithm.trained:
            features = _features(folder, split, num_hidden, probe, control, ahead)
        else:
            features = vectors_of(split, resolve_device(probe.run.device))
            log.info("estimating the number of novel classes among %s vectors", f"{len(features.pile):,}")
        record = _with_trials(folder, record, features, config, probe.run.seed, control)
        found, most = algorithm.verdict(record.curve), most_extra(number, config)
        warnings = warnings_for(found, split.num_known, num_hidden, most, config.max_novel)
        facts = asdict(found) | {"warnings": warnings, "provenance": provenance(features.pile.device)}
        record = record.model_copy(update=facts)
        write_record(folder.estimate, record)
        return record


def _with_trials(
    folder: Folder, record: Estimate, features: Features, config: EstimateConfig, seed: int, control: Control
) -> Estimate:
    """Make the trials that the record lacks; it is written after each."""
    algorithm, most = ALGORITHMS[config.algorithm], most_extra(len(features.pile), config)
    random = generator(features.pile.device, seed, "estimate")
    done, start = {trial.extra: trial for trial in record.curve}, time.perf_counter()
    for trial in algorithm.trials(features, config, random, dict(done)):
        if trial.extra not in done:
            seconds, start = time.perf_counter() - start, time.perf_counter()
            done[trial.extra] = trial
            curve = [done[extra] for extra in sorted(done)]
            record = record.model_copy(update={"curve": curve, "seconds": record.seconds + seconds})
            write_record(folder.estimate, record)
            if algorithm.most_trials:
                control.watch(TrialDone(trial, len(done), algorithm.most_trials(most), seconds))
        if control.should_stop():
            raise Stopped
    return record


def _features(
    folder: Folder, split: Split, num_hidden: int, probe: Recipe, control: Control, ahead: float
) -> Features:
    """Train a network on the known classes that are not hidden, and embed the images with it.

    The labelled features are those of the hidden classes, or of all known classes if none is hidden.
    """
    shown, labelled, classes = split, split.labelled, split.labels
    if num_hidden:
        shown, labelled, classes = hide_classes(split, num_hidden)
    work = {**preflight(probe, shown), "ahead": ahead}
    data = Dataset("probe", shown, None, ())
    network = Training(folder.inner("estimate/probe"), data, probe, control, work)
    weights, device = network.pretrain(), network.device
    learner = build_stage(probe.pretraining[-1], probe, shown.task, shown.look, device)
    learner.adopt(weights)
    viewer = network.viewer(learner)
    known, unlabelled = (
        viewer.over(each.to(device), learner.encoder) for each in (labelled, split.unlabelled)
    )
    return Features(known, classes.to(device), unlabelled)


def vectors_of(split: Split, device: torch.device) -> Features:
    """The features for an estimate on vectors: the first view of each."""
    look = split.look
    known, pile = (
        evaluation_view(each.take(torch.arange(len(each))), look.size, look.kind, look.mean, look.std)
        for each in (split.labelled, split.unlabelled)
    )
    return Features(known.to(device), split.labels.to(device), pile.to(device), split.pile == "mixed")


def _continued(folder: Folder, new: Estimate, split: Split) -> Estimate:
    """The estimate in the folder, or else the new one; an estimate of something else is refused."""
    found = folder.read_estimate()
    if found is None:
        return new
    if found.images in _fingerprints(split):
        new = new.model_copy(update={"images": found.images})
    then, now = (
        each.settings | each.source.model_dump(exclude=IRRELEVANT) | {"images": each.images}
        for each in (found, new)
    )
    if differing := sorted(key for key in then | now if then.get(key) != now.get(key)):
        names = ", ".join(differing)
        raise UsageError(f"The estimate in {folder.path} has other values of {names}.", Hint.NEW_FOLDER)
    return found


def _settings(probe: Recipe, config: EstimateConfig) -> Settings:
    """The settings that decide an estimate: its own, the run's, and pretraining's if a network is trained."""
    trained = ALGORITHMS[config.algorithm].trained
    stages, run = tuple(f"{stage}." for stage in probe.pretraining if trained), asdict(probe.run)
    settings: Settings = {
        key: value for key, value in probe.flat().items() if key.startswith(stages) or key in run
    }
    return settings | {PREFIX + key: value for key, value in asdict(config).items()}


def _fingerprints(split: Split) -> Iterator[str]:
    """A fingerprint of the images and of the labels of the known classes.

    Then what it would be if the images were in memory, or in files, instead.
    """
    labels = split.labels.cpu().numpy().tobytes()
    for parts in zip(split.labelled.fingerprints(), split.unlabelled.fingerprints(), strict=False):
        yield blake2b("/".join(parts).encode() + labels, digest_size=16).hexdigest()


def resolved(config: EstimateConfig, num_known: int, pile: PileKind, vectors: bool) -> EstimateConfig:
    """The settings with `auto` replaced by an algorithm that suits the known classes and the pile.

    DTC's algorithm does not suit a mixed pile, since it counts the known classes in it too.
    """
    if config.algorithm == "silhouette" and not vectors:
        raise UsageError(f"{PREFIX}algorithm=silhouette needs vectors, not images.")
    if config.algorithm != "auto":
        return config
    if vectors:
        return replace(config, algorithm="silhouette")
    return replace(config, algorithm="dtc" if num_known >= FEWEST_KNOWN and pile == "novel" else "gcd")


def warnings_for(found: Verdict, num_known: int, num_hidden: int, most: int, allowed: int) -> list[str]:
    """Warn of few known classes, a wide range, or a best number at either end of those tried.

    `most` is the largest number tried: `allowed`, unless there are too few images for that.
    """
    warnings = []
    if found.high > WIDE * found.low:
        warnings.append(
            f"cannot tell the number from these features: {found.low} to {found.high} are plausible"
        )
    if num_known < FEW:
        shown = f" ({num_known - num_hidden} of them shown to the network)" if num_hidden else ""
        classes = "1 known class is" if num_known == 1 else f"{num_known} known classes are"
        warnings.append(f"{classes} few for an estimate{shown}; take the number as a hint")
    if found.extra == (0 if num_hidden else 1):
        warnings.append(
            "the smallest number of clusters fits best, which happens when features do not separate the "
            "classes; there may be more novel classes"
        )
    if found.num_novel and max(found.high, *found.preferred.values()) >= most:
        further = (
            f"raise {PREFIX}max_novel to try more"
            if most == allowed
            else "there are too few images to try more"
        )
        warnings.append(f"the largest number of clusters tried is among the best; {further}")
    return warnings
