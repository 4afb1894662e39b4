"""Settings: frozen dataclasses next to the code that uses them, one way to override them: `key=value`."""

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

from newfound.core.errors import UsageError, unknown

Count = Annotated[int, Ge(0)]
Positive = Annotated[int, Ge(1)]
TwoOrMore = Annotated[int, Ge(2)]
NonNegative = Annotated[FiniteFloat, Ge(0)]
PositiveFloat = Annotated[FiniteFloat, Gt(0)]
Share = Annotated[FiniteFloat, Ge(0), Le(1)]
ShareBelowOne = Annotated[FiniteFloat, Ge(0), Lt(1)]
ProperShare = Annotated[FiniteFloat, Gt(0), Lt(1)]
Cosine = Annotated[FiniteFloat, Ge(-1), Le(1)]


def _absolute(path: str) -> str:
    """So that a run can be looked at from another folder."""
    return str(Path(path).absolute()) if path else ""


def _ascending(text: str) -> str:
    """Numbers between 0 and 1, such as 0.5,0.75, or none."""
    try:
        shares = [0.0, *(float(part) for part in text.split(",") if text), 1.0]
    except ValueError:
        shares = []
    if not shares or not all(one < other for one, other in pairwise(shares)):
        raise PydanticCustomError("shares", "must be shares of the epochs that rise from 0 to 1: 0.5,0.75")
    return text


Shares = Annotated[str, AfterValidator(_ascending)]
File = Annotated[str, AfterValidator(_absolute)]
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
    momentum: ShareBelowOne = setting(0.9, "momentum of SGD, with or without Nesterov's look ahead")
    weight_decay: NonNegative = setting(1e-4, "weight decay, on every parameter")
    trains: Literal["all", "last-block"] = setting("all", "the whole encoder or its last block; heads always")
    norm_over: Literal["crops", "crop"] = setting(
        "crops", "what the encoder's BatchNorm sees at once: the crops of one size, or crop after crop"
    )


@dataclass(frozen=True)
class ConstraintConfig:
    """IIC's two constraints, added to the loss of any method with joint logits."""

    alpha: NonNegative = setting(0.0, "weight of the inter-class constraint; 0 leaves it out")
    beta: NonNegative = setting(0.0, "weight of the intra-class constraint; 0 leaves it out")
    form: Literal["full", "cross"] = setting(
        "full", "inter-class constraint; cross: without the part that rewards low entropy"
    )
    tau: PositiveFloat = setting(0.1, "temperature of the softmax that the constraints see")


@dataclass(frozen=True)
class RunConfig:
    """How a run is executed."""

    seed: Count = setting(0, "seed of every random stream")
    track: Literal["published", "matched"] = setting(
        "published", "published: each method as its paper trains it; matched: all alike but for the objective"
    )
    encoder: str = setting("auto", "network; auto chooses by the size of the images")
    device: str = setting("auto", "cpu, cuda or cuda:N; auto takes a GPU when there is one")
    precision: Literal["auto", "float32", "bf16", "fp16"] = setting("auto", "auto: bf16 or fp16 on a GPU")
    mode: Literal["auto", "eager", "compiled", "graph"] = setting(
        "auto", "how a step is executed; auto: a CUDA graph for long runs on a GPU, else eager"
    )
    weights: File = setting("", "file of torchvision's or timm's weights that the first stage starts from")
    pretrained: File = setting("", "a checkpoint to start from instead of pretraining")
    evaluate_every: Count = setting(0, "epochs between evaluations when truth is known; 0: fifty in a run")
    checkpoint_seconds: NonNegative = setting(30.0, "at most one checkpoint in this many seconds")


@dataclass(frozen=True)
class Recipe:
    """Everything a run is made of besides its data."""

    method: str
    config: Any
    train: Mapping[str, TrainConfig]
    """Each stage in its order; the method's own is `discover`."""
    run: RunConfig
    constraints: ConstraintConfig = ConstraintConfig()

    @property
    def pretraining(self) -> tuple[str, ...]:
        """The stages before discovery."""
        return tuple(stage for stage in self.train if stage != "discover")

    def groups(self) -> dict[str, tuple[Any, ...]]:
        """Prefix of a setting's name → the configs that have settings of that prefix."""
        stages = {f"{stage}.": (self.train[stage],) for stage in self.pretraining}
        own = (self.config, self.train["discover"], self.run)
        return {"": own, "constraints.": (self.constraints,), **stages}

    def flat(self) -> dict[str, Any]:
        """The resolved settings under the names that `key=value` uses."""
        return {
            prefix + key: value
            for prefix, configs in self.groups().items()
            for config in configs
            for key, value in asdict(config).items()
        }


def meanings(config: Any) -> dict[str, str]:
    """What each setting means."""
    return {field.name: field.metadata["meaning"] for field in fields(config)}


def override(recipe: Recipe, overrides: Overrides) -> Recipe:
    """The recipe with `overrides` applied; every key and value is checked."""
    known = recipe.flat()
    for key in overrides:
        if key not in known:
            raise _unknown_setting(key, recipe)

    def updated(config: C, prefix: str = "") -> C:
        changes = {f.name: overrides[key] for f in fields(config) if (key := prefix + f.name) in overrides}  # type: ignore[arg-type]
        values = asdict(config) | changes  # type: ignore[call-overload]
        return checked(type(config), values, prefix, f"newfound methods {recipe.method} lists the settings")

    prefixes = {stage: "" if stage == "discover" else f"{stage}." for stage in recipe.train}
    return replace(
        recipe,
        config=updated(recipe.config),
        run=updated(recipe.run),
        constraints=updated(recipe.constraints, "constraints."),
        train={stage: updated(train, prefixes[stage]) for stage, train in recipe.train.items()},
    )


def _unknown_setting(key: str, recipe: Recipe) -> UsageError:
    """Names the stages where the part before the dot is nothing like any of them."""
    prefix, dot, own = key.rpartition(".")
    remedy = f"newfound methods {recipe.method} lists all"
    if key == "recipe":
        return UsageError(
            f"unknown setting {key!r}; a named variation is for newfound reproduce --recipe, or give what it "
            f"changes; {remedy}"
        )
    if key in ("constraints", "estimate", *recipe.pretraining):
        return UsageError(
            f"unknown setting {key!r}; those below it are {key}.KEY=VALUE, in Python "
            f"**{{'{key}.KEY': VALUE}}; {remedy}"
        )
    if prefix == "discover":
        return UsageError(f"unknown setting {key!r}; settings of discovery have no prefix: {own}; {remedy}")
    if prefix == "estimate":
        return UsageError(
            f"unknown setting {key!r}; it needs --num-novel auto, or newfound estimate; {remedy}"
        )
    if dot and not get_close_matches(prefix, ("constraints", *recipe.pretraining)):
        stages = " and ".join(recipe.pretraining) or "none"
        return UsageError(
            f"unknown setting {key!r}; what {recipe.method} trains before discovery: {stages}; {remedy}"
        )
    return unknown("setting", key, recipe.flat(), remedy)


@cache
def _adapter(config: Any) -> TypeAdapter[Any]:
    return TypeAdapter(config)


def checked(config: type[C], values: Overrides, prefix: str, remedy: str) -> C:
    """The config with these values; a wrong one is named with `prefix` before its key."""
    try:
        valid: C = _adapter(config).validate_python(values)  # type: ignore[arg-type]
        return valid
    except ValidationError as error:
        first = error.errors()[0]
        key = prefix + ".".join(str(part) for part in first["loc"])
        raise UsageError(
            f"{key}: {first['msg'][0].lower() + first['msg'][1:]}; got {first['input']!r}; {remedy}"
        ) from None


def parse_overrides(arguments: list[str]) -> dict[str, str]:
    """`["alpha=0.1", ...]` → `{"alpha": "0.1", ...}`; the values are checked when they are applied."""
    out: dict[str, str] = {}
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not (key and equals):
            raise UsageError(f"a setting must be key=value; got {argument!r}; for example epochs=50")
        if key in out:
            raise UsageError(
                f"a setting must be given once; got {key}={out[key]} and {argument}; leave one out"
            )
        out[key] = value
    return out
