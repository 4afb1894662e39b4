"""What a call leaves open: the method, the encoder, and whether that is trained."""

import logging
from typing import Any

import pytest

from newfound.core.errors import Hint, UsageError
from newfound.core.registry import recipe_for
from newfound.core.source import EncoderVersion, Source
from newfound.nn.encoders import PREFERRED, preprocessing_of
from newfound.run import start as module
from newfound.run.run import request_of
from newfound.run.start import Start, start

OWN = Source(labelled="/known", unlabelled="/pile")
DINO, LITE = PREFERRED
SIDE = 224


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The pretrained encoders that are there; there is no GPU."""
    names = {LITE}
    monkeypatch.setattr(module, "missing", lambda name: "" if name in names else f"fetch {name}")
    monkeypatch.setattr(module, "version_of", lambda name: (None, version(name)))
    monkeypatch.setattr(module, "preprocessing_of", lambda name: name == DINO or preprocessing_of(name))
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    return names


def version(name: str) -> EncoderVersion:
    return EncoderVersion(encoder=name, revision="7", preprocessing="as it is")


def begin(source: Source = OWN, method: str | None = None, side: int = SIDE, **settings: Any) -> Start:
    return start(source, method, settings, lambda: side)


def encoder(found: Start) -> str | None:
    return found.source.frozen.encoder if found.source.frozen else None


@pytest.mark.parametrize(
    ("there", "name", "line"),
    [
        ({DINO, LITE}, DINO, f"encoder: {DINO}, which is in the local cache"),
        (
            {LITE},
            LITE,
            f"encoder: {LITE}, the best one installed; encoder={DINO} would be better (fetch {DINO},",
        ),
        (
            set(),
            None,
            f"no pretrained one is installed; encoder={LITE} would be better (fetch {LITE}, 17 MB)",
        ),
    ],
)
def test_photographs_start_from_the_best_encoder_that_is_there(
    there: set[str], name: str | None, line: str, installed: set[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "newfound")
    installed.clear()
    installed |= there
    found = begin()
    assert encoder(found) == name
    assert line in caplog.text
    if name:
        assert (found.method, found.source.name, found.settings) == ("centroids", "vectors", {})
        assert "method: centroids, the default for vectors" in caplog.text
    else:
        assert (found.method, found.source.name, found.settings) == ("iic", "own", {"encoder": "small"})
        assert found.source.size == 64
        assert "on a CPU" in caplog.text


def test_what_is_no_photograph_or_says_its_start_is_trained_from_scratch(
    installed: set[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "newfound")
    cases: list[tuple[Source, int, dict[str, Any]]] = [
        (OWN, 32, {}),
        (Source(benchmark="cifar10"), SIDE, {}),
        (OWN.model_copy(update={"size": 96}), SIDE, {}),
        (OWN, SIDE, {"encoder": "resnet18"}),
        (OWN, SIDE, {"weights": "some.pth"}),
        (OWN, SIDE, {"trains": "last-block"}),
    ]
    for source, side, settings in cases:
        source = source if source.benchmark else source.model_copy(update={"pile": "novel"})
        assert begin(source, "iic", side, **settings) == Start("iic", source, settings)
    assert caplog.text == ""
    assert begin(method="dualrank").source.frozen is None  # which needs feature maps


def test_a_pretrained_encoder_is_frozen_unless_the_call_says_what_to_train(installed: set[str]) -> None:
    arrays = Source(arrays="0f")
    for source in (OWN, arrays, Source(benchmark="cifar10")):
        for trains in (None, "heads"):
            given = {"trains": trains} if trains else {}
            settings = {"encoder": LITE, "views": "2", "epochs": "3"} | given
            found = start(source, "uno-v2", settings, lambda: 8)
            assert (encoder(found), found.source.views, found.settings) == (LITE, 2, {"epochs": "3"})
    settings = {"encoder": LITE, "trains": "last-block", "known.trains": "all"}
    found = start(OWN, "rs", settings, lambda: SIDE)
    assert encoder(found) is None
    recipe = recipe_for("rs", "own", found.settings)
    assert {stage: train.trains for stage, train in recipe.train.items()} == {
        "rotnet": "last-block",
        "known": "all",
        "discover": "last-block",
    }
    assert begin(method="kcl", encoder=LITE).settings == {"encoder": LITE}  # trained as its paper does


def test_vectors_have_a_default_method(installed: set[str]) -> None:
    for source in (Source(embeddings="feats", labelled="known.csv"), Source(arrays="0f", vectors=True)):
        mixed = source.model_copy(update={"pile": "mixed"})
        assert begin(source) == Start("centroids", mixed, {})
    assert begin(Source(benchmark="digits")).method == "iic"


def test_a_mixed_pile_has_a_default_method(installed: set[str]) -> None:
    mixed = OWN.model_copy(update={"pile": "mixed"})
    for source in (Source(benchmark="digits-mixed"), Source(benchmark="digits", pile="mixed")):
        assert begin(source).method == "simgcd"
    assert (begin(mixed).method, encoder(begin(mixed))) == ("centroids", LITE)


def test_an_open_pile_is_one_that_the_method_was_made_for(installed: set[str]) -> None:
    for method, pile in (("gcd", "mixed"), ("rs", "novel"), ("iic", "novel")):
        assert begin(method=method).source.pile == pile
        assert begin(OWN.model_copy(update={"pile": "novel"}), method).source.pile == "novel"
    assert begin(Source(benchmark="digits"), "gcd").source.pile is None


@pytest.mark.parametrize(("method", "hint"), [("iic", Hint.MIXED), ("rs", None)])
def test_an_assumed_novel_pile_of_images_is_told(
    method: str, hint: Hint | None, installed: set[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "newfound")
    for source in (Source(benchmark="digits"), OWN.model_copy(update={"pile": "novel"})):
        begin(source, method, 32)
    begin(OWN, "gcd", 32)
    assert "assumed" not in caplog.text
    for settings in ({}, {"encoder": LITE}):
        caplog.clear()
        begin(OWN, method, 32, **settings)
        assert "assumed to hold no image of a known class." in caplog.text
        assert getattr(caplog.records[-1], "hint", None) == hint


def test_a_run_is_resumed_as_it_began(installed: set[str]) -> None:
    first = begin()
    installed |= {DINO}
    begun = request_of(recipe_for(first.method, first.source.name), first.source)
    assert start(OWN, None, {}, lambda: SIDE, begun) == first
    other = start(OWN, None, {"encoder": DINO}, lambda: SIDE, begun)
    assert begun.differences(request_of(recipe_for(other.method, "vectors"), other.source)) == ["encoder"]
    installed.clear()
    scratch = begin()
    begun = request_of(recipe_for("iic", "own", scratch.settings), scratch.source)
    installed |= {LITE}
    assert start(OWN, None, {}, lambda: SIDE, begun) == scratch


def test_a_resumed_run_and_the_next_one_keep_the_kind_of_the_pile(installed: set[str]) -> None:
    mixed = {"pile": "mixed"}
    for source in (OWN, Source(benchmark="digits")):
        first = begin(source.model_copy(update=mixed), "iic", 32)
        begun = request_of(recipe_for("iic", source.name), first.source)
        assert start(source, None, {}, lambda: 32, begun).source.pile == "mixed"
        named = source.model_copy(update={"pile": "novel"})
        assert start(named, None, {}, lambda: 32, begun).source.pile == "novel"


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"encoder": "lite1"}, "Unknown encoder 'lite1'. Did you mean 'lite0'"),
        ({"encoder": "resnet18", "trains": "heads"}, "trains=heads needs a pretrained encoder"),
        ({"encoder": "resnet18", "views": 2}, "'views' only applies to a frozen encoder"),
        ({"views": 0}, "'views' must be at least 1"),
    ],
)
def test_refused(settings: dict[str, Any], text: str, installed: set[str]) -> None:
    with pytest.raises(UsageError, match=text):
        begin(**settings)
