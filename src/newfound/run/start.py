"""Choose what a call leaves open: the method, the encoder, and what to assume of the pile.

A frozen encoder becomes part of the source: discovery then sees vectors, and uses the method's settings for
vectors.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from newfound.core.errors import Hint, UsageError
from newfound.core.registry import method_entry, recipe_for
from newfound.core.settings import Overrides, Recipe, RunConfig, checked
from newfound.core.source import Source
from newfound.data.benchmarks import find_benchmark
from newfound.engine.device import resolve_device
from newfound.nn.encoders import PREFERRED, missing, preprocessing_of
from newfound.run.folder import Folder
from newfound.run.frozen import version_of
from newfound.run.models import Request
from newfound.run.recipe import DEFAULT_METHOD, MIXED_METHOD, VECTOR_METHOD

log = logging.getLogger(__name__)
TINY = 32
"""Images up to this size are not taken for photographs, for which pretrained encoders are made."""
CPU_SIDE = 64
"""Size of images for training from scratch on a CPU, so that it takes minutes."""
CPU_ENCODER = "small"
"""The encoder for training from scratch on a CPU."""


@dataclass(frozen=True)
class Start:
    """A call with every choice made."""

    method: str
    source: Source
    settings: Overrides

    @property
    def recipe(self) -> Recipe:
        return recipe_for(self.method, self.source.name, self.settings)


def precedent(folder: Folder, source: Source, resume: bool) -> Request | None:
    """The run whose choices a call adopts: the run to resume, or the one that it follows."""
    if resume and folder.config.exists():
        return folder.request()
    return Folder(Path(source.follows)).request() if source.follows else None


def start(
    source: Source,
    method: str | None,
    settings: Overrides,
    side: Callable[[], int],
    begun: Request | None = None,
) -> Start:
    """Choose what the call leaves open, and log it.

    `side` returns the size of a user's own images; `begun` is the `precedent`, whose choices are adopted.
    """
    if source.name != "vectors":
        source, settings = _with_encoder(source, method, settings, side, begun)
    if "views" in settings:
        raise UsageError("Setting 'views' only applies to a frozen encoder.")
    if method is None and begun:
        method = begun.method
        log.info("method: %s, as before", method)
    elif method is None:
        method, what = default_method(source)
        log.info("method: %s, the default for %s", method, what)
    if source.pile is None and begun:
        source = source.model_copy(update={"pile": begun.source.pile})
    if source.pile is None and not source.benchmark:
        found = method_entry(method).method
        source = source.model_copy(update={"pile": found.made_for})
        if found.made_for == "novel":
            hint = {"hint": Hint.MIXED} if found.mixed else {}
            log.info("The pile is assumed to hold no image of a known class.", extra=hint)
    return Start(method, source, dict(settings))


def default_method(source: Source) -> tuple[str, str]:
    """The default method for a source, and what it is the default for."""
    pile = source.pile or (find_benchmark(source.benchmark)[1].pile if source.benchmark else "novel")
    if source.name == "vectors":
        return VECTOR_METHOD, "vectors"
    return (MIXED_METHOD, "mixed piles of images") if pile == "mixed" else (DEFAULT_METHOD, "images")


def _with_encoder(
    source: Source, method: str | None, settings: Overrides, side: Callable[[], int], begun: Request | None
) -> tuple[Source, Overrides]:
    """The source, with its frozen encoder if it gets one, and the remaining settings."""
    given = {key: settings[key] for key in ("encoder", "views", "device") if key in settings}
    run = checked(RunConfig, given)
    name, trains = run.encoder, settings.get("trains")
    if begun and not settings.keys() & {"encoder", "views", "trains"}:
        return _as_begun(source, settings, begun)
    if _is_open(source, method, settings) and (pixels := side()) > TINY:
        name = _best_installed()
        on_cpu = resolve_device(run.device).type == "cpu"
        if name == "auto" and on_cpu and pixels > CPU_SIDE and source.labelled:
            what = f"{CPU_SIDE} pixels with encoder={CPU_ENCODER}"
            log.info("on a CPU: training at %s, which takes minutes rather than hours", what)
            return source.model_copy(update={"size": CPU_SIDE}), {**settings, "encoder": CPU_ENCODER}
    if name == "auto" or preprocessing_of(name) is None:
        if trains == "heads":
            raise UsageError("trains=heads needs a pretrained encoder.", Hint.ENCODERS)
        return source, settings
    if trains in (None, "heads") and _takes_vectors(method):
        frozen = {"embedded_by": version_of(name)[1], "views": run.views}
        return source.model_copy(update=frozen), _without_encoder(settings)
    if trains is None:
        return source, settings
    stages = recipe_for(method or default_method(source)[0], source.name).pretraining
    return source, {**{f"{stage}.trains": trains for stage in stages}, **settings}


def _is_open(source: Source, method: str | None, settings: Overrides) -> bool:
    """Whether the call leaves the encoder of a user's own images open."""
    chosen = bool(settings.keys() & {"encoder", "weights", "pretrained"})
    trained = settings.get("trains", "heads") != "heads"
    return source.name == "own" and source.size is None and not (chosen or trained) and _takes_vectors(method)


def _takes_vectors(method: str | None) -> bool:
    """Whether the method has settings for vectors; the default method has."""
    return method is None or method_entry(method).values_for("vectors")[0] != "default"


def _without_encoder(settings: Overrides) -> Overrides:
    return {key: value for key, value in settings.items() if key not in ("encoder", "trains", "views")}


def _as_begun(source: Source, settings: Overrides, begun: Request) -> tuple[Source, Overrides]:
    """The source and the settings with the encoder of the run that began."""
    if begun.source.frozen:
        frozen = {"embedded_by": begun.source.frozen, "views": begun.source.views}
        return source.model_copy(update=frozen), _without_encoder(settings)
    size = source.size or begun.source.size
    return source.model_copy(update={"size": size}), {"encoder": begun.settings["encoder"], **settings}


def _best_installed() -> str:
    """The best pretrained encoder that is installed, or `auto` to train one from scratch; logs the choice."""
    names = list(PREFERRED)
    best = next((name for name in names if not missing(name)), None)
    if best == names[0]:
        log.info("encoder: %s, which is in the local cache", best)
        return best
    better = names[0] if best else names[-1]
    scratch = "trained from scratch, since no pretrained one is installed"
    used = f"{best}, the best one installed" if best else scratch
    what = better, missing(better), PREFERRED[better]
    log.info("encoder: %s; encoder=%s would be better (%s, %s)", used, *what)
    return best or "auto"
