"""Settings: frozen dataclasses next to the code that uses them, one way to override them: `key=value`."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from typing import Annotated, Any, Literal, TypeVar

from annotated_types import Ge, Gt
from pydantic import FiniteFloat, StringConstraints, TypeAdapter, ValidationError

from newfound.core.errors import UsageError, unknown

Count = Annotated[int, Ge(0)]
Positive = Annotated[int, Ge(1)]
TwoOrMore = Annotated[int, Ge(2)]
NonNegative = Annotated[FiniteFloat, Ge(0)]
PositiveFloat = Annotated[FiniteFloat, Gt(0)]
Shares = Annotated[str, StringConstraints(pattern=r"^(0?\.\d+(,0?\.\d+)*)?$")]
"""Numbers between 0 and 1, such as 0.5,0.75."""
Overrides = Mapping[str, Any]
C = TypeVar("C")


def setting(default: Any, meaning: str) -> Any:
    """A dataclass field with its default and, for `newfound methods NAME`, what it means."""
    return field(default=default, metadata={"meaning": meaning})


@dataclass(frozen=True)
class TrainConfig:
    """How one stage is trained."""

    epochs: Count = setting(
        200, "passes over the stage's images; over the labelled ones where labelled_share is a number"
    )
    batch_size: Positive = setting(256, "images in a step, labelled and unlabelled together")
    augmentation: str = setting("v2", "augmentation recipe: weak, twice, twice-reflect, v1 or v2")
    labelled_share: Literal["proportional", "half", "three-quarters"] = setting(
        "proportional", "labelled part of a batch: as in the two sets, one half or three quarters"
    )
    classes_per_batch: Count = setting(
        0,
        "classes that the labelled part of a batch is drawn from, as many images of each; 0: all, by chance",
    )
    optimiser: Literal["sgd", "nesterov", "adam"] = setting("sgd", "how the gradients are followed")
    lr: PositiveFloat = setting(0.1, "peak learning rate")
    min_lr: NonNegative = setting(0.001, "learning rate at the start of the warm-up and at the end")
    lr_falls: Shares = setting(
        "", "when the learning rate falls, in shares of the epochs, such as 0.5,0.75; empty: a cosine"
    )
    lr_factor: PositiveFloat = setting(0.1, "by what it is multiplied whenever it falls")
    warmup: Count = setting(10, "epochs of linear warm-up")
    momentum: NonNegative = setting(0.9, "momentum of SGD, with or without Nesterov's look ahead")
    weight_decay: NonNegative = setting(1e-4, "weight decay, on every parameter")


@dataclass(frozen=True)
class RunConfig:
    """How a run is executed."""

    seed: Count = setting(0, "seed of every random stream")
    encoder: str = setting("auto", "network; auto chooses by the size of the images")
    device: str = setting("auto", "cpu, cuda or cuda:N; auto takes a GPU when there is one")
    precision: Literal["auto", "float32", "bf16", "fp16"] = setting("auto", "auto: bf16 or fp16 on a GPU")
    mode: Literal["auto", "eager", "compiled", "graph"] = setting(
        "auto", "how a step is executed; auto: a CUDA graph for long runs on a GPU, else eager"
    )
    pretrained: str = setting("", "a checkpoint to start from instead of pretraining")
    evaluate_every: Count = setting(0, "epochs between evaluations when truth is known; 0: fifty in a run")
    checkpoint_seconds: NonNegative = setting(30.0, "at most one checkpoint in this many seconds")


@dataclass(frozen=True)
class Recipe:
    """Everything a run is made of besides its data."""

    method: str
    config: Any
    train: Mapping[str, TrainConfig]
    run: RunConfig

    def flat(self) -> dict[str, Any]:
        """The resolved settings under the names that `key=value` uses."""
        out = asdict(self.config) | asdict(self.run) | asdict(self.train["discover"])
        for stage, train in self.train.items():
            if stage != "discover":
                out |= {f"{stage}.{key}": value for key, value in asdict(train).items()}
        return out


def meanings(config: Any) -> dict[str, str]:
    """What each setting means."""
    return {field.name: field.metadata["meaning"] for field in fields(config)}


def override(recipe: Recipe, overrides: Overrides) -> Recipe:
    """The recipe with `overrides` applied; every key and value is checked."""
    config: dict[str, Any] = {}
    run: dict[str, Any] = {}
    train: dict[str, dict[str, Any]] = {stage: {} for stage in recipe.train}
    known = recipe.flat()
    for key, value in overrides.items():
        stage, _, name = key.rpartition(".")
        if key not in known:
            raise unknown("setting", key, known, f"newfound methods {recipe.method} lists all")
        if stage:
            train[stage][name] = value
        elif name in {f.name for f in fields(recipe.config)}:
            config[name] = value
        elif name in {f.name for f in fields(RunConfig)}:
            run[name] = value
        else:
            train["discover"][name] = value
    return replace(
        recipe,
        config=_updated(recipe.config, config, "", recipe.method),
        run=_updated(recipe.run, run, "", recipe.method),
        train={
            stage: _updated(old, train[stage], "" if stage == "discover" else f"{stage}.", recipe.method)
            for stage, old in recipe.train.items()
        },
    )


@cache
def _adapter(config: Any) -> TypeAdapter[Any]:
    return TypeAdapter(config)


def _updated(old: C, changes: Mapping[str, Any], prefix: str, method: str) -> C:
    try:
        values: dict[str, Any] = asdict(old) | dict(changes)  # type: ignore[call-overload]
        config: Any = type(old)
        checked: C = _adapter(config).validate_python(values)
        return checked
    except ValidationError as error:
        first = error.errors()[0]
        key = prefix + ".".join(str(part) for part in first["loc"])
        raise UsageError(
            f"{key}: {first['msg'][0].lower() + first['msg'][1:]}; got {first['input']!r}; "
            f"newfound methods {method} lists the settings"
        ) from None


def parse_overrides(arguments: list[str]) -> dict[str, str]:
    """`["alpha=0.1", ...]` → `{"alpha": "0.1", ...}`; the values are checked when they are applied."""
    out = {}
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not (key and equals):
            raise UsageError(f"a setting must be key=value; got {argument!r}; for example epochs=50")
        out[key] = value
    return out
