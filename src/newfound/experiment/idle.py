"""Settings that a call takes and that change nothing."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict

from newfound.core.config import Recipe

OF_DISCOVERY = ("pretrained", "evaluate_every")
"""Settings of a run that its stages before discovery do not look at."""


def idle_line(recipe: Recipe, stages: Sequence[str], settings: Iterable[str]) -> str:
    """What is said of settings that change nothing where only these stages are trained; empty if all do."""
    used = asdict(recipe.run).keys() - OF_DISCOVERY
    idle = [key for key in settings if key not in used and not key.startswith(tuple(f"{s}." for s in stages))]
    if not idle:
        return ""
    known = recipe.flat()
    instead = [name for key in idle for stage in stages if (name := f"{stage}.{key}") in known]
    trained = f"only {_with_verb(stages, 'is', 'are')} trained" if stages else "nothing is trained"
    remedy = f"; {_with_verb(instead, 'has', 'have')}" if instead else ""
    return f"{_with_verb(idle, 'has', 'have')} no effect here: {trained}{remedy}"


def _with_verb(names: Sequence[str], one: str, many: str) -> str:
    return f"{', '.join(names)} {one if len(names) == 1 else many}"
