"""`newfound estimate`, and discovery with --num-novel auto."""

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from newfound.data.files import open_images
from newfound.experiment import Folder
from tests.cli.calls import DIGITS, TINY, contents, refused, works
from tests.cli.conftest import OwnImages

SMALL = ("pretrain.epochs=1", "pretrain.warmup=0", "pretrain.batch_size=24", "device=cpu")
FEW = ("estimate.max_novel=3", "estimate.restarts=2")


def test_an_estimate_is_shown_drawn_and_kept() -> None:
    out = works("estimate", "iic", *SMALL, *FEW, *DIGITS, "--out", "here/estimate")
    for words in ("5 known classes", "does not look at it", "pretrain 1/1", "trial 4/4", "extra clusters"):
        assert words in out
    for words in ("accuracy on hidden classes", "silhouette", "decides", "best accuracy", "warning: 5 known"):
        assert words in out
    found = json.loads(Path("here/estimate/estimate.json").read_text())
    assert f"estimate: {found['num_novel']} novel class" in out
    with Image.open("here/estimate/estimate.png") as image:
        assert image.format == "PNG"
    assert list(Path("here/pretrained").iterdir())
    before = contents(Path("here"))
    refused(2, ("estimate", "iic", *SMALL, *FEW, *DIGITS, "--out", "here/estimate"), "--resume", "holds an")
    assert contents(Path("here")) == before
    again = works("estimate", "iic", *SMALL, *FEW, *DIGITS, "--out", "here/estimate", "--resume")
    assert f"estimate: {found['num_novel']} novel class" in again


def test_settings_of_discovery_are_said_to_have_no_effect() -> None:
    given = ("epochs=1", "alpha=1", "pretrained=none.safetensors", *SMALL, *FEW, *DIGITS)
    said = "epochs, alpha, pretrained have no effect here: only pretrain is trained; pretrain.epochs has\n"
    assert said in works("estimate", *given, "--stop-after", "0s", "--out", "out")


def test_gcds_needs_few_classes_and_own_images_no_number(images: OwnImages) -> None:
    own = images.options[:4]
    dtc = ("estimate", "iic", *SMALL, *FEW, *own, "--algorithm", "dtc", "--out", "dtc")
    refused(1, dtc, "at least 5 known classes", "got 3", "--num-novel")
    assert not Path("dtc").exists()
    out = works("estimate", "iic", *SMALL, *FEW, "encoder=small", *own, "--out", "gcd")
    assert "24 labelled images of 3 known classes, 20 unlabelled, 16 x 16 pixels, some files left out" in out
    assert f"left out: {images.broken}" in out
    assert "accuracy on known classes" in out
    assert "by gcd" in out
    assert "silhouette" not in out
    assert "benchmark" not in out


def test_it_stops_in_time_and_goes_on() -> None:
    call = ("estimate", *SMALL, *FEW, *DIGITS, "--out", "out")
    assert "go on" in works(*call, "--stop-after", "0s")
    assert "num_novel" not in json.loads(Path("out/estimate.json").read_text())
    assert "novel class" in works(*call, "--resume")


def test_discovery_of_an_estimated_number() -> None:
    call = ("discover", "iic", *TINY, *FEW, *DIGITS, "--num-novel", "auto", "--out", "out/run")
    out = works(*call)
    found = json.loads(Path("out/run/estimate/estimate.json").read_text())
    number = found["num_novel"]
    assert f"as estimated, {number} are looked for" in out
    config = json.loads(Path("out/run/config.json").read_text())
    assert config["data"] == {"benchmark": "digits", "subset": 12, "num_novel": number, "estimated": "dtc"}
    results = json.loads(Path("out/run/results.json").read_text())
    plausible = {"low": found["low"], "high": found["high"]}
    assert results["estimate"] == {"num_novel": number, "algorithm": "dtc", **plausible}
    assert results["recipe"] == "custom"
    assert len(results["cluster_sizes"]) == number
    assert Folder(Path("out/run")).source().load().split.task.num_novel == number
    assert "task-aware" in works("evaluate", "out/run")
    assert f"images in each novel class: {results['cluster_sizes'][0]}" in works(*call, "--resume")
    before = contents(Path("out"))
    refused(2, call, "holds a run already")
    assert contents(Path("out")) == before


def test_own_images_of_an_estimated_number(images: OwnImages, monkeypatch: pytest.MonkeyPatch) -> None:
    call = ("discover", *TINY, *FEW, "encoder=small", *images.options[:4])  # of nobody says how many classes
    opened: list[int] = []

    def opening(paths: list[str], *rest: Any) -> Any:
        opened.append(len(paths))
        return open_images(paths, *rest)

    monkeypatch.setattr("newfound.data.own.open_images", opening)
    monkeypatch.setattr("newfound.data.few.TEST_EVERY", 9)
    out = works(*call, "--out", "run")  # by gcd, since they are few
    assert out.index("few labelled images: 8 of 'ants'") < out.index("trial 1/")
    assert out.count("few labelled images") == 1
    assert opened == [24, 21]  # each image once, for the estimate and for the run
    assert "tsne.png" in works("figures", "run")  # and as the run would have read them
    config = json.loads(Path("run/config.json").read_text())
    assert config["data"]["estimated"] == "gcd"
    assert (
        len(json.loads(Path("run/results.json").read_text())["cluster_sizes"]) == config["data"]["num_novel"]
    )


def test_a_run_that_was_given_a_number_goes_on_without_an_estimate(images: OwnImages) -> None:
    call = ("discover", *TINY, "encoder=small", *images.options, "--out", "run")
    works(*call, "--stop-after", "0s")
    before = contents(Path("run"))
    for auto in ((), ("--num-novel", "auto")):
        unnumbered = ("discover", *TINY, *FEW, "encoder=small", *images.options[:4], *auto, "--out", "run")
        refused(2, (*unnumbered, "--resume"), "must go on as it was started", "with --num-novel 2")
        assert contents(Path("run")) == before


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (("estimate",), ("--data NAME", "--labelled and --unlabelled", "newfound data")),
        (("estimate", "icc", *DIGITS), ("unknown method 'icc'", "'iic'")),
        (("estimate", "iic", "estimate.thta=1", *DIGITS), ("'estimate.theta'", "newfound estimate --help")),
        (("estimate", "iic", *DIGITS, "--algorithm", "elbow"), ("--algorithm", "dtc")),
        (("estimate", "iic", *DIGITS, "--stop-after", "soon"), ("--stop-after", "'soon'")),
        (("estimate", "--labelled", "a", "--unlabelled", "b", "--subset", "3"), ("--subset", "own images")),
        (("discover", "iic", *DIGITS, "estimate.theta=0.1"), ("unknown setting 'estimate.theta'",)),
        (("discover", "iic", *DIGITS, "--num-novel", "auto", "batch_size=1"), ("batch_size", "at least 2")),
        (
            ("discover", "iic", *DIGITS, "--num-novel", "seven"),
            ("--num-novel", "integer, or auto", "'seven'"),
        ),
    ],
    ids=lambda value: " ".join(value),
)
def test_mistakes(call: tuple[str, ...], words: tuple[str, ...]) -> None:
    refused(2, call, *words)
    assert not list(Path().iterdir())
