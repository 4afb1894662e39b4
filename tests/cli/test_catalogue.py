"""The catalogue says what the registry says."""

import pytest

from newfound.cli.lists import CARDS, PATH, catalogue, registered
from newfound.core.registry import VARIABLE


def test_the_file_is_what_make_readme_writes() -> None:
    assert CARDS.validate_json(PATH.read_bytes()) == registered(), "run python -m tools.catalogue"


def test_it_has_every_setting_with_its_values() -> None:
    card = catalogue()["iic"]
    settings = {each.key: each for each in card.settings}
    assert (settings["alpha"].default, settings["alpha"].published["cifar100-20"]) == (0.05, 0.02)
    assert "constraints.alpha" in settings
    assert card.variations["fast (cifar10)"] == {"epochs": 320}


def test_it_has_the_kinds_of_piles_the_default_first() -> None:
    piles = {name: card.piles for name, card in catalogue().items()}
    assert [piles[name] for name in ("rs", "iic", "gcd")] == [
        ["novel"],
        ["novel", "mixed"],
        ["mixed", "novel"],
    ]


def test_plug_ins_are_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "json")
    assert catalogue() == registered()
