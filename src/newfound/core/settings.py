"""Settings: frozen dataclasses beside the code that uses them, overridden by `key=value`."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from difflib import get_close_matches
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from annotated_types import Ge, Gt, Le, Lt
from pydantic import AfterValidator, FiniteFloat, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from newfound.core.errors import Hint, UsageError, unknown

MOST = 2**31 - 1
"""Upper limit of whole numbers, which every tensor and array library can represent."""
HUGE = 1e30
"""Upper limit of other numbers: finite in single precision, and so are their squares in double."""
Count = Annotated[int, Ge(0), Le(MOST)]
Positive = Annotated[int, Ge(1), Le(MOST)]
TwoOrMore = Annotated[int, Ge(2), Le(MOST)]
NonNegative = Annotated[FiniteFloat, Ge(0), Le(HUGE)]
PositiveFloat = Annotated[FiniteFloat, Gt(0), Le(HUGE)]
Share = Annotated[FiniteFloat, Ge(0), Le(1)]
ShareBelowOne = Annotated[FiniteFloat, Ge(0), Lt(1)]
ProperShare = Annotated[FiniteFloat, Gt(0), Lt(1)]
Cosine = Annotated[FiniteFloat, Ge(-1), Le(1)]


def _absolute(path: str) -> str:
    """The absolute path, so that a run can be opened from another working directory."""
    return str(Path(path).absolute()) if path else ""


def _absolute_model(name: str) -> str:
    """The same for a model in a folder, such as hf:./folder."""
    scheme, colon, model = name.partition(":")
    return (
        f"{scheme}:{_absolute(str(Path(model).expanduser()))}" if model[:1] in (".", "~") and colon else name
    )


def _ascending(text: str) -> str:
    """Increasing numbers between 0 and 1, such as 0.5,0.75, or an empty string."""
    try:
        shares = [0.0, *(float(part) for part in text.split(",") if text), 1.0]
    except ValueError:
        shares = []
    if not shares or not all(one < other for one, other in pairwise(shares)):
        raise PydanticCustomError("shares", "Input should be increasing fractions such as 0.5,0.75")
    return text


Shares = Annotated[str, AfterValidator(_ascending)]
File = Annotated[str, AfterValidator(_absolute)]
EncoderName = Annotated[str, AfterValidator(_absolute_model)]
Value = bool | int | float | str
"""What a setting can be set to."""
Overrides = Mapping[str, Any]
C = TypeVar("C")


def setting(default: Any, meaning: str) -> Any:
    """A dataclass field with its default and, for `newfound methods NAME`, its meaning."""
    return field(default=default, metadata={"meaning": meaning})


@dataclass(frozen=True)
class TrainConfig:
    """How one stage is trained."""

    epochs: Count = setting(
        200,
        "epochs: passes over all images; over the labelled ones if labelled_share is half or three-quarters",
    )
    batch_size: Positive = setting(256, "images per step, labelled and unlabelled together")
    augmentation: str = setting("v2", "augmentation recipe: none, weak, twice, twice-reflect, v1 or v2")
    labelled_share: Literal["proportional", "balanced", "half", "three-quarters"] = setting(
        "proportional",
        "labelled share of a batch: in proportion to the sets, a half (balanced, half), or three quarters",
    )
    classes_per_batch: Count = setting(
        0, "known classes per batch, with the same number of images each; 0: sample regardless of class"
    )
    optimiser: Literal["sgd", "nesterov", "adam"] = setting(
        "sgd", "optimiser; nesterov: SGD with Nesterov momentum"
    )
    lr: PositiveFloat = setting(0.1, "peak learning rate")
    min_lr: NonNegative = setting(0.001, "learning rate at the start of the warm-up and at the end")
    lr_falls: Shares = setting(
        "", "when to decay the learning rate, as fractions of the epochs (0.5,0.75); empty: cosine schedule"
    )
    lr_factor: PositiveFloat = setting(0.1, "factor of each decay in lr_falls")
    warmup: Count = setting(10, "epochs of linear warm-up, at most half of all epochs")
    momentum: ShareBelowOne = setting(0.9, "momentum of SGD")
    weight_decay: NonNegative = setting(1e-4, "weight decay, applied to every parameter")
    trains: Literal["all", "last-block", "heads"] = setting(
        "all", "train the whole encoder, its last block only, or nothing of it; heads are always trained"
    )
    norm_over: Literal["crops", "crop"] = setting(
        "crops", "BatchNorm batch of the encoder: all crops of one size together, or crop by crop"
    )


@dataclass(frozen=True)
class ConstraintConfig:
    """IIC's two constraints, which can be added to the loss of any method with joint logits."""

    alpha: NonNegative = setting(0.0, "weight of the inter-class constraint; 0: off")
    beta: NonNegative = setting(0.0, "weight of the intra-class constraint; 0: off")
    form: Literal["full", "cross"] = setting(
        "full", "inter-class constraint; cross: without the part that rewards low entropy"
    )
    tau: PositiveFloat = setting(0.1, "softmax temperature of the constraints")


@dataclass(frozen=True)
class RunConfig:
    """How a run is executed."""

    seed: Count = setting(0, "seed of every random stream")
    track: Literal["published", "matched"] = setting(
        "published", "published: trained as in its paper; matched: all methods trained alike"
    )
    encoder: EncoderName = setting(
        "auto",
        "network: one that `newfound encoders` lists, or hf:MODEL; auto: chosen by image size and trained "
        "from scratch. If the network is pretrained, only heads are trained unless trains says otherwise",
    )
    views: Positive = setting(
        2, "views of each image that a frozen encoder embeds: the image, its mirror image, random crops"
    )
    device: str = setting("auto", "cpu, cuda or cuda:N; auto: a GPU if there is one")
    devices: Positive = setting(
        1, "processes that train together, each on a GPU of its own; torchrun and Slurm set the number"
    )
    precision: Literal["auto", "float32", "bf16", "fp16"] = setting(
        "auto", "auto: bf16 or fp16 on a GPU, float32 elsewhere"
    )
    mode: Literal["auto", "eager", "compiled", "graph"] = setting(
        "auto", "how a step is executed; auto: a CUDA graph for long runs on a GPU, else eager"
    )
    weights: File = setting("", "file with torchvision or timm weights to initialise the encoder from")
    pretrained: File = setting("", "checkpoint to start from instead of pretraining")
    sample: Positive = setting(
        2_000_000,
        "maximum number of unlabelled vectors to train on, drawn at random; the others are assigned like new "
        "ones",
    )
    evaluate_every: Count = setting(0, "epochs between evaluations when labels exist; 0: fifty per run")
    checkpoint_seconds: NonNegative = setting(30.0, "minimum number of seconds between checkpoints")


@dataclass(frozen=True)
class Recipe:
    """All settings of a run."""

    method: str
    config: Any
    train: Mapping[str, TrainConfig]
    """The stages in order; the method's own is `discover`."""
    run: RunConfig
    constraints: ConstraintConfig = ConstraintConfig()

    @property
    def pretraining(self) -> tuple[str, ...]:
        """The stages before discovery."""
        return tuple(stage for stage in self.train if stage != "discover")

    def groups(self) -> dict[str, tuple[Any, ...]]:
        """Prefix of a key → the configs whose settings have that prefix."""
        stages = {f"{stage}.": (self.train[stage],) for stage in self.pretraining}
        own = (self.config, self.train["discover"], self.run)
        return {"": own, "constraints.": (self.constraints,), **stages}

    def flat(self) -> dict[str, Value]:
        """The resolved settings by key."""
        return {
            prefix + key: value
            for prefix, configs in self.groups().items()
            for config in configs
            for key, value in asdict(config).items()
        }


def meanings(config: Any) -> dict[str, str]:
    """Setting → its meaning."""
    return {field.name: field.metadata["meaning"] for field in fields(config)}


def override(recipe: Recipe, overrides: Overrides) -> Recipe:
    """The recipe with `overrides` applied; keys and values are validated."""
    known = recipe.flat()
    for key in overrides:
        if key not in known:
            raise _unknown_setting(key, recipe)

    def updated(config: C, prefix: str = "") -> C:
        changes = {f.name: overrides[key] for f in fields(config) if (key := prefix + f.name) in overrides}  # type: ignore[arg-type]
        values = asdict(config) | changes  # type: ignore[call-overload]
        return checked(type(config), values, prefix)

    prefixes = {stage: "" if stage == "discover" else f"{stage}." for stage in recipe.train}
    return replace(
        recipe,
        config=updated(recipe.config),
        run=updated(recipe.run),
        constraints=updated(recipe.constraints, "constraints."),
        train={stage: updated(train, prefixes[stage]) for stage, train in recipe.train.items()},
    )


def _unknown_setting(key: str, recipe: Recipe) -> UsageError:
    """The error for a key that a recipe does not have."""
    groups, known = ("constraints", *recipe.pretraining), recipe.flat()
    prefix, _, name = key.rpartition(".")
    if prefix == "discover" and name in known:
        return UsageError(f"Unknown setting {key!r}. Did you mean {name!r}?", Hint.SETTINGS)
    if prefix == "estimate":
        return UsageError(f"{key!r} only applies where the number of novel classes is estimated.")
    if prefix and not get_close_matches(prefix, groups):
        stages = " and ".join(recipe.pretraining) or "none"
        message = f"Unknown setting {key!r}. Stages of {recipe.method} before discovery: {stages}."
        return UsageError(message, Hint.SETTINGS)
    return unknown("setting", key, known, Hint.SETTINGS)


_PLAIN = {
    "Input should be": "must be",
    "a valid integer": "a whole number",
    "a valid number": "a number",
    "a valid boolean": "true or false",
    "a valid string": "text",
    "a valid dictionary": "a mapping",
    "an instance of Sequence": "a sequence",
    "an instance of ndarray": "an array",
    "an instance of _Buffer": "an array",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    "Missing required argument": "is missing",
    "Unexpected keyword argument": "is unknown",
    "Unexpected positional argument": "cannot be passed by position",
}
"""Pydantic's wording → ours."""


@cache
def _adapter(config: Any) -> TypeAdapter[Any]:
    return TypeAdapter(config)


def checked(config: type[C], values: Overrides, prefix: str = "", hint: Hint | None = Hint.SETTINGS) -> C:
    """The config with these values, validated; an error names the setting with its prefix."""
    try:
        valid: C = _adapter(config).validate_python(values)  # type: ignore[arg-type]
        return valid
    except ValidationError as error:
        key, problem = problem_of(error)
        raise UsageError(f"Setting {prefix + key!r} {problem}.", hint) from None


def problem_of(error: ValidationError) -> tuple[str, str]:
    """The first invalid field, and what is wrong with it."""
    first = error.errors()[0]
    problem = re.sub(", (unable|got) .*", "", first["msg"])
    for words, ours in _PLAIN.items():
        problem = problem.replace(words, ours)
    got = "" if first["type"] == "missing_argument" else f", got {first['input']!r:.60}"
    return ".".join(str(part) for part in first["loc"]), problem + got
