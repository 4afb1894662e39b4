"""Recorded runs: written once, resumed when interrupted, refused when the recipe has no name."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from newfound.core import registry
from tests.cli.calls import refused, works
from tests.tiny import NARROW, STAGE, TINY

PRETRAIN = {f"pretrain.{key}": value for key, value in STAGE.items()}


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """IIC with a variation that ends in a moment."""
    entry = replace(registry.method_entry("iic"), variations={"tiny": TINY | NARROW | PRETRAIN})
    monkeypatch.setitem(registry._METHODS, "iic", entry)


def test_a_recipe_is_recorded_for_each_seed_and_only_once() -> None:
    call = ("reproduce", "digits", "iic", "--recipe", "tiny", "--seeds", "0,1")
    said = works(*call, "--note", "on a busy machine")
    assert "recorded: results/digits/iic-tiny-seed1.json" in said
    records = [json.loads(Path(f"results/digits/iic-tiny-seed{seed}.json").read_text()) for seed in (0, 1)]
    assert [record["seed"] for record in records] == [0, 1]
    assert {record["recipe"] for record in records} == {"tiny"}
    assert {record["note"] for record in records} == {"on a busy machine"}
    assert "is recorded already" in works(*call)


def test_an_interrupted_recipe_goes_on_with_the_same_call() -> None:
    call = ("reproduce", "digits", "iic", "--recipe", "tiny")
    assert "stopped at a checkpoint" in works(*call, "--stop-after", "0s")
    assert not Path("results").exists()
    works(*call)
    assert Path("results/digits/iic-tiny-seed0.json").exists()


def test_a_run_of_other_code_is_not_recorded_as_one_of_the_present() -> None:
    call = ("reproduce", "digits", "iic", "--recipe", "tiny")
    folder = Path("runs/reproduce/digits/iic-tiny-seed0")
    works(*call, "--stop-after", "0s")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"digest": "0123"}))
    words = ("the code of iic has changed since", f"{folder} began", "delete that folder")
    refused(2, (*call, "--seeds", "1,0"), *words)  # before seed 1 is trained
    assert not Path("results").exists()
    assert not folder.with_name("iic-tiny-seed1").exists()


def test_where_nothing_can_be_recorded_is_said_before_anything_is_trained() -> None:
    Path("file").write_text("")
    call = ("reproduce", "digits", "iic", "--recipe", "tiny", "--results", "file")
    refused(1, call, "must be in a folder that can be written", "file is a file", "choose another")
    assert not Path("runs").exists()


def test_unknown_recipe_and_bad_seeds() -> None:
    call = ("reproduce", "digits", "iic")
    refused(2, (*call, "--recipe", "tin"), "unknown recipe 'tin'", "did you mean 'tiny'?")
    refused(2, (*call, "--seeds", "a"), "--seeds must be whole numbers")


def test_swapped_arguments_are_told_their_order() -> None:
    right = ("benchmark must come first", "got iic cifar10", "newfound reproduce cifar10 iic")
    refused(2, ("reproduce", "iic", "cifar10"), *right)
    refused(2, ("reproduce", "iic", "rs"), "unknown benchmark 'iic'")


def test_the_paper_s_estimate_is_a_recipe_where_it_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("newfound.cli.reproduce.ESTIMATES", {"digits": 6})
    entry = registry.method_entry("iic")
    monkeypatch.setitem(registry._METHODS, "iic", replace(entry, ours={"digits": TINY | NARROW | PRETRAIN}))
    works("reproduce", "digits", "iic", "--recipe", "estimated")
    record = json.loads(Path("results/digits/iic-estimated-seed0.json").read_text())
    assert record["recipe"] == "estimated"
    assert len(record["cluster_sizes"]) == 6
    assert record["config"]["alpha"] == 0.05  # as both tables of the appendix have it
    refused(2, ("reproduce", "cifar10", "iic", "--recipe", "estimated"), "unknown recipe 'estimated'")
    refused(2, ("reproduce", "digits", "iic", "--recipe", "fast"), "unknown recipe 'fast'", "on digits")


def test_the_matched_track_is_a_recipe_of_every_method() -> None:
    refused(2, ("reproduce", "digits", "rs", "--recipe", "match"), "did you mean 'matched'?")


def test_a_variation_that_changes_nothing_is_recorded_as_the_recipe_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    quick = {"digits": TINY | NARROW | PRETRAIN}
    entry = replace(registry.method_entry("iic"), ours=quick, variations={"same": {"epochs": TINY["epochs"]}})
    monkeypatch.setitem(registry._METHODS, "iic", entry)
    said = works("reproduce", "digits", "iic", "--recipe", "same")
    assert "same changes nothing for iic on digits: its usual recipe is run" in said
    assert json.loads(Path("results/digits/iic-seed0.json").read_text())["recipe"] == "newfound"
