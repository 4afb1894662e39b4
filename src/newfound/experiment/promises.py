"""What a learner must give back, looked at before it trains: a mistake there shows up far from it later."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from newfound.core.errors import UsageError
from newfound.core.records import Losses, Task


def check_losses(losses: Losses, of: str, heads: int | None = None) -> None:
    """Named terms, each a scalar or one value for each head; None: for however many there are."""
    form = "named terms, each a scalar or one value for each head" + (f", here {heads}" if heads else "")
    if not isinstance(losses, Mapping) or not losses:
        raise _broken("loss", of, form, _told(losses), "return {'name': term}")
    for name, term in losses.items():
        if not (
            _is_real(term) and (term.ndim == 0 or (term.ndim == 1 and len(term) == (heads or len(term))))
        ):
            raise _broken("loss", of, form, f"{name!r}: {_told(term)}", "take the mean over all else")


def check_scores(both: tuple[Tensor, Tensor], of: str, images: int, task: Task) -> int:
    """Of each head for each image: all classes, and the novel ones; returns the number of heads."""
    joint, novel = both
    heads = len(joint) if _is_real(joint) and joint.ndim == 3 else 1
    for given, name, classes, which in (
        (joint, "scores", task.num_classes, "all classes, known ones first"),
        (novel, "the second of both_scores", task.num_novel, "the novel classes"),
    ):
        if not _is_real(given) or given.shape != (heads, images, classes):
            form = f"of shape (heads, images, classes) for {which}, here ({heads}, {images}, {classes})"
            raise _broken(name, of, form, _told(given), "a single head has its axis too: scores[None]")
    return heads


def _is_real(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def _told(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)} and type {str(value.dtype).removeprefix('torch.')}"
    return "no term" if value == {} else f"a value of type {type(value).__name__}"


def _broken(what: str, of: str, form: str, got: str, remedy: str) -> UsageError:
    return UsageError(f"{what} of {of} must be {form}; got {got}; {remedy}")
