"""Settings to try on known classes that play the novel ones: every combination of the values given."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from newfound.core.config import Recipe
from newfound.core.errors import UsageError
from newfound.core.registry import recipe_for


@dataclass(frozen=True)
class Candidate:
    """One combination of the settings that are tried, and the runs that try it."""

    settings: Mapping[str, Any]
    recipes: Sequence[Recipe]
    """One for each seed."""

    @property
    def name(self) -> str:
        return ",".join(f"{key}={value}" for key, value in self.settings.items())


def candidates_of(
    method: str, benchmark: str, settings: Mapping[str, str], seeds: int
) -> tuple[Recipe, list[Candidate]]:
    """The recipe with what is simply set, and every combination of what is to be tried."""
    if "seed" in settings:
        raise UsageError(
            f"--seeds must say how many seeds there are; got seed={settings['seed']} too; leave it out"
        )
    fixed = {key: value for key, value in settings.items() if "," not in value}
    tried = {key: value.split(",") for key, value in settings.items() if key not in fixed}
    _check_values(tried)
    base = recipe_for(method, benchmark, fixed)
    if not tried:
        raise UsageError(
            "a setting must have values to try; got none with commas between them; "
            f"for example lr=0.03,0.1; newfound methods {method} lists the settings"
        )
    found: dict[str, Candidate] = {}
    for values in product(*tried.values()):
        chosen = fixed | dict(zip(tried, values, strict=True))
        recipes = [recipe_for(method, benchmark, chosen | {"seed": seed}) for seed in range(seeds)]
        flat = recipes[0].flat()
        candidate = Candidate({key: flat[key] for key in tried}, recipes)
        found[candidate.name] = candidate
    return base, list(found.values())


def _check_values(tried: Mapping[str, Sequence[str]]) -> None:
    for key, values in tried.items():
        if key.rpartition(".")[2] == "lr_falls":
            raise UsageError(
                f"values to try must have no commas of their own, as those of {key} do; got "
                f"{','.join(values)}; give one fall, or compare schedules with newfound discover"
            )
        if len(set(values)) < len(values):
            raise UsageError(
                f"values to try must differ; got {key}={','.join(values)}; name each of them once"
            )
