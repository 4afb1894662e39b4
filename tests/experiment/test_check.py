"""What cannot work is told before anything is trained."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from newfound.core.errors import UsageError
from newfound.core.registry import method_names
from newfound.data.images import Dataset
from newfound.experiment.check import check_run
from newfound.experiment.model import build_stage
from newfound.methods.uno import UNO
from newfound.stages.known import Known
from tests.tiny import CPU, tiny_recipe

TOO_MANY = {"rs": {"top": 1000}, "dualrank": {"words": 8, "top": 9}}
"""More of the largest features, or words, than there are."""


@pytest.mark.parametrize("name", list(TOO_MANY))
def test_settings_that_do_not_fit_the_network_are_refused(name: str, digits: Dataset) -> None:
    told = f"settings of {name} must fit .* got in discover: selected index k out of range; newfound methods"
    with pytest.raises(UsageError, match=told):
        check_run(tiny_recipe(name, **TOO_MANY[name]), digits.split)


def test_a_stage_that_is_not_trained_is_not_tried(digits: Dataset) -> None:
    check_run(tiny_recipe("rs", top=1000, epochs=0), digits.split)


def fail(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Let the stage of the known classes raise this."""

    def raising(*_: object) -> None:
        raise error

    monkeypatch.setattr(Known, "loss", raising)


def test_stages_before_discovery_are_tried_too(digits: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    fail(monkeypatch, ValueError("too narrow\nhere"))
    with pytest.raises(UsageError, match=r"settings of rs must .* got in known: too narrow; newfound"):
        check_run(tiny_recipe("rs"), digits.split)


def test_memory_that_ran_out_is_no_mistake_of_the_settings(
    digits: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(monkeypatch, RuntimeError("DefaultCPUAllocator: not enough memory"))
    with pytest.raises(RuntimeError, match="not enough memory"):
        check_run(tiny_recipe("rs"), digits.split)


def test_an_error_of_ours_is_told_as_it_is(digits: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    fail(monkeypatch, UsageError("a batch must be larger"))
    with pytest.raises(UsageError, match=r"^a batch must be larger$"):
        check_run(tiny_recipe("rs"), digits.split)


@pytest.mark.parametrize("name", method_names())
@pytest.mark.parametrize("batch_size", [2, 64])
def test_settings_that_work_are_not_refused(name: str, batch_size: int, digits: Dataset) -> None:
    check_run(tiny_recipe(name, batch_size=batch_size), digits.split)


def test_what_is_tried_draws_no_random_number_of_the_caller(digits: Dataset) -> None:
    """NCL draws partners in its forward; the last to be initialised is the stage before it."""
    recipe, split = tiny_recipe("ncl", hard_negatives=3), digits.split
    check_run(recipe, split)
    after = torch.rand(3)
    build_stage("known", recipe, split.task, split.look, CPU)
    assert torch.equal(after, torch.rand(3))


def given(monkeypatch: pytest.MonkeyPatch, name: str, change: Callable[[Any], Any]) -> None:
    """Let a function of UNO give something else than it does."""
    usual = getattr(UNO, name)
    monkeypatch.setattr(UNO, name, lambda *arguments: change(usual(*arguments)))


@pytest.mark.parametrize(
    ("change", "got"),
    [
        (
            lambda scores: scores[0],
            r"scores .* \(1, 2, 10\); got a tensor of shape \(2, 10\) and type float32;",
        ),
        (lambda scores: scores[..., :5], r"scores .* got a tensor of shape \(2, 2, 5\)"),
        (lambda scores: scores.long(), r"scores .* and type int64"),
    ],
    ids=["no head axis", "known classes only", "whole numbers"],
)
def test_scores_of_another_form_are_told(
    change: Callable[[Any], Any], got: str, digits: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    given(monkeypatch, "scores", change)
    with pytest.raises(UsageError, match=got):
        check_run(tiny_recipe("uno-v2", heads=2), digits.split)


def test_novel_scores_of_another_form_are_told(digits: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    given(monkeypatch, "both_scores", lambda both: (both[0], both[0]))
    with pytest.raises(
        UsageError, match=r"second of both_scores of uno-v2 .* \(2, 2, 5\); got .* \(2, 2, 10\)"
    ):
        check_run(tiny_recipe("uno-v2", heads=2), digits.split)


@pytest.mark.parametrize(
    ("change", "got"),
    [
        (
            lambda losses: losses["ce"],
            r"got a tensor of shape \(2,\) and type float32; return \{'name': term\}",
        ),
        (lambda losses: {}, "got no term;"),
        (lambda losses: {"ce": losses["ce"].repeat(3)}, r"got 'ce': a tensor of shape \(6,\)"),
        (lambda losses: {"ce": losses["ce"][None]}, r"got 'ce': a tensor of shape \(1, 2\)"),
        (lambda losses: {"ce": 0.5}, "got 'ce': a value of type float;"),
    ],
    ids=["a tensor", "nothing", "other heads", "two axes", "no tensor"],
)
def test_losses_of_another_form_are_told(
    change: Callable[[Any], Any], got: str, digits: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    given(monkeypatch, "loss", change)
    with pytest.raises(UsageError, match=rf"loss of uno-v2 must be named terms.*each head, here 2; {got}"):
        check_run(tiny_recipe("uno-v2", heads=2), digits.split)


def test_losses_of_a_stage_are_told_too(digits: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Known, "loss", lambda *_: torch.zeros(()))
    with pytest.raises(UsageError, match=r"loss of known must be named terms.*each head; got a tensor"):
        check_run(tiny_recipe("rs"), digits.split)
