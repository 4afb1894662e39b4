"""What cannot work is told before anything is trained."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from newfound.core.encoder import Encoder
from newfound.core.errors import UsageError
from newfound.core.registry import ENCODERS, method_names, recipe_for
from newfound.data.dataset import Dataset
from newfound.data.images import StreamedImages
from newfound.data.vectors import from_embeddings, sampled
from newfound.methods.uno import UNO
from newfound.run import preflight as preflights
from newfound.run.folder import Folder
from newfound.run.parts import PROGRAM
from newfound.run.preflight import check_device, plan, preflight
from newfound.run.recipe import build_method
from newfound.run.run import Run
from newfound.stages.supervised import Known
from tests.tiny import CPU, tiny_recipe

TOO_MANY = {"rs": {"top": 1000}, "dualrank": {"words": 8, "top": 9}}
"""More of the largest features, or words, than there are."""


@pytest.mark.parametrize("name", list(TOO_MANY))
def test_settings_that_do_not_fit_the_network_are_refused(name: str, digits: Dataset) -> None:
    told = f"settings of {name} do not fit .*discover: selected index k out of range"
    with pytest.raises(UsageError, match=told):
        preflight(tiny_recipe(name, **TOO_MANY[name]), digits.split)


@pytest.mark.parametrize(
    ("name", "settings", "told"),
    [
        (
            "dualrank",
            {"trains": "all", "known.trains": "all"},
            "dualrank needs feature maps, which .* plain ",
        ),
        ("mcl", {"trains": "all", "known.trains": "all"}, "mcl needs feature maps, which .* plain "),
        ("rs", {"known.trains": "last-block"}, "known.trains=last-block needs a last block, which plain "),
        ("rs", {"known.trains": "all", "trains": "last-block"}, "^trains=last-block needs a last block"),
    ],
)
def test_an_encoder_without_maps_is_refused_where_they_are_needed(
    name: str, settings: dict[str, str], told: str, digits: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    def plain() -> Encoder:
        return Encoder.of(nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(48, 16)), 16)

    monkeypatch.setitem(ENCODERS.items, "plain", plain)
    with pytest.raises(UsageError, match=told):
        preflight(tiny_recipe(name, encoder="plain", **settings), digits.split)
    preflight(tiny_recipe("rs", encoder="plain", **{"known.trains": "all", "trains": "all"}), digits.split)
    preflight(tiny_recipe("iic", encoder="plain"), digits.split)


def test_a_mixed_pile_needs_a_method_that_can_handle_it(digits: Dataset) -> None:
    mixed = replace(digits.split, pile="mixed")
    with pytest.raises(UsageError, match=r"^rkd assumes .*kmeans.*pile=\"novel\""):
        preflight(tiny_recipe("rkd"), mixed)
    preflight(tiny_recipe("kmeans"), mixed)


def test_a_stage_that_is_not_trained_is_not_tried(digits: Dataset) -> None:
    preflight(tiny_recipe("rs", top=1000, epochs=0), digits.split)


def fail(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Let the stage of the known classes raise this."""

    def raising(*_: object) -> None:
        raise error

    monkeypatch.setattr(Known, "loss", raising)


def test_stages_before_discovery_are_tried_too(digits: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    fail(monkeypatch, ValueError("too narrow\nhere"))
    with pytest.raises(UsageError, match=r"settings of rs do not fit .*known: too narrow"):
        preflight(tiny_recipe("rs"), digits.split)


def test_memory_that_ran_out_is_no_mistake_of_the_settings(
    digits: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(monkeypatch, RuntimeError("DefaultCPUAllocator: not enough memory"))
    with pytest.raises(RuntimeError, match="not enough memory"):
        preflight(tiny_recipe("rs"), digits.split)


def test_an_error_of_ours_is_told_as_it_is(digits: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    fail(monkeypatch, UsageError("a batch must be larger"))
    with pytest.raises(UsageError, match=r"^a batch must be larger$"):
        preflight(tiny_recipe("rs"), digits.split)


@pytest.mark.parametrize("name", method_names())
@pytest.mark.parametrize("batch_size", [2, 64])
def test_settings_that_work_are_not_refused(name: str, batch_size: int, digits: Dataset) -> None:
    preflight(tiny_recipe(name, batch_size=batch_size), digits.split)


def test_what_is_tried_draws_no_random_number_of_the_caller(digits: Dataset) -> None:
    """NCL draws partners in its forward; the method is the last to be initialised."""
    recipe, split = tiny_recipe("ncl", hard_negatives=3), digits.split
    preflight(recipe, split)
    after = torch.rand(3)
    build_method(recipe, split.task, split.look, CPU)
    assert torch.equal(after, torch.rand(3))


def given(monkeypatch: pytest.MonkeyPatch, name: str, change: Callable[[Any], Any]) -> None:
    """Let a function of UNO give something else than it does."""
    usual = getattr(UNO, name)
    monkeypatch.setattr(UNO, name, lambda *arguments: change(usual(*arguments)))


@pytest.mark.parametrize(
    ("change", "got"),
    [
        (lambda scores: scores[0], r"float32 tensor of shape \(2, 10\)"),
        (lambda scores: scores[..., :5], r"shape \(2, 2, 5\)"),
        (lambda scores: scores.long(), "int64 tensor"),
    ],
    ids=["no head axis", "known classes only", "whole numbers"],
)
def test_scores_of_another_form_are_refused(
    change: Callable[[Any], Any], got: str, digits: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    given(monkeypatch, "scores", change)
    with pytest.raises(UsageError, match=rf"uno-v2.scores must be .* got a {got}|{got}"):
        preflight(tiny_recipe("uno-v2", heads=2), digits.split)


@pytest.mark.parametrize(
    ("change", "got"),
    [
        (lambda losses: losses["ce"], "must return named terms"),
        (lambda losses: {}, "must return named terms"),
        (lambda losses: {"ce": losses["ce"].repeat(3)}, r"must return named terms, .* got ce .* \(6,\)"),
        (lambda losses: {"ce": losses["ce"][None]}, r"must return named terms, .* got ce .* \(1, 2\)"),
        (lambda losses: {"ce": 0.5}, "must return named terms, .* got ce a float"),
    ],
    ids=["a tensor", "nothing", "other heads", "two axes", "no tensor"],
)
def test_losses_of_another_form_are_refused(
    change: Callable[[Any], Any], got: str, digits: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    given(monkeypatch, "loss", change)
    with pytest.raises(UsageError, match=got):
        preflight(tiny_recipe("uno-v2", heads=2), digits.split)


def test_a_network_of_pairs_needs_two_images(digits: Dataset) -> None:
    with pytest.raises(UsageError, match="batch_size=1 is too small: kcl needs 2"):
        preflight(tiny_recipe("kcl", batch_size=1), digits.split)


def test_without_a_number_of_classes_only_the_stages_are_tried(digits: Dataset) -> None:
    preflight(tiny_recipe("iic"), replace(digits.split, num_novel=None))


@pytest.mark.parametrize("method", ["iic", "kmeans"])
def test_what_a_run_needs_is_counted(method: str, digits: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = tiny_recipe(method)
    needed = plan(recipe, digits, preflight(recipe, digits.split))
    assert (needed.labelled, needed.unlabelled) == (len(digits.split.labelled), len(digits.split.unlabelled))
    assert needed.seconds > 0
    assert [line.partition(":")[0] for line in needed.lines] == ["images", "memory", "disk", "time"]
    needed.check(Path("."))
    monkeypatch.setattr(preflights, "free_memory", lambda: 2**20)
    with pytest.raises(UsageError, match=r"Not enough memory: .* and 1 MiB are free\. .*batch_size"):
        needed.check(Path("."))


def test_every_process_on_this_machine_needs_memory(
    digits: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, four = (Run(Folder(tmp_path), digits, tiny_recipe("iic", devices=n)).plan() for n in (1, 4))
    assert four.host - one.host >= 3 * PROGRAM
    monkeypatch.setattr(preflights, "free_memory", lambda: one.host + PROGRAM)
    one.check(tmp_path)
    with pytest.raises(UsageError, match=r"Not enough memory: .*fewer devices"):
        four.check(tmp_path)


def test_decoding_counts_where_it_takes_longer_than_training(
    digits: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = tiny_recipe("iic")
    work = preflight(recipe, digits.split)
    monkeypatch.setattr(preflights, "_decoding", lambda images: 100.0)
    crops = recipe.config.large_crops + 0.25 * recipe.config.small_crops
    assert plan(recipe, digits, work).seconds >= 100 * work["discover"] / crops
    monkeypatch.undo()
    assert preflights._decoding(digits.split.unlabelled) == 0
    Image.new("RGB", (8, 8)).save(tmp_path / "one.png")
    assert preflights._decoding(StreamedImages([str(tmp_path / "one.png")], (8, 8))) > 0


def test_both_sets_are_kept_in_memory_or_neither(digits: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    known, pile = (StreamedImages(["a.png"] * number, (8, 8), checked=False) for number in (2, 5))
    split = replace(digits.split, labelled=known, labels=torch.tensor([0, 1]), unlabelled=pile)
    for room, kept in ((7, True), (5, False)):
        monkeypatch.setattr("newfound.data.folders.RESIDENT_BYTES", room * 3 * 8 * 8)
        assert preflights._is_kept(split) is kept
    assert not preflights._is_kept(replace(split, unlabelled=StreamedImages(["a.png"] * 5, (8, 8))))


def test_vectors_that_do_not_fit_need_a_smaller_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    labels = np.where(np.arange(3000) < 60, np.arange(3000) % 3, -1)
    data = from_embeddings(random.normal(size=(3000, 8)), labels, 4)
    some, every = (
        plan(recipe, data, preflight(recipe, sampled(data, recipe.run.sample, 0).split))
        for recipe in (recipe_for("kmeans", "vectors", {"sample": n, "device": "cpu"}) for n in (1000, 5000))
    )
    assert (some.sample, every.sample) == (1000, 2940)
    assert some.host < every.host
    assert "1,000 of them trained on" in some.lines[0]
    monkeypatch.setattr(preflights, "free_memory", lambda: 2**20)
    with pytest.raises(UsageError, match="smaller sample"):
        every.check(Path("."))


def test_more_processes_than_gpus_are_refused() -> None:
    with patch.object(torch.cuda, "device_count", lambda: 2):
        for wanted, number in (("auto", 2), ("cuda:1", 1), ("cpu", 8)):
            check_device(wanted, number)
        with pytest.raises(UsageError, match="devices=3, but torch finds 2 GPUs here"):
            check_device("auto", 3)
        with pytest.raises(UsageError, match="device cannot be 'cuda:1'"):
            check_device("cuda:1", 2)
