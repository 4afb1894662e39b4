"""`newfound estimate`, and discovery where the number of novel classes is unknown."""

from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from newfound.data.folders import open_images
from newfound.run.folder import Folder
from tests.cli.calls import DIGITS, TINY, contents, refused, works
from tests.cli.conftest import OwnImages

FEW = ("estimate.max_novel=3", "estimate.restarts=2")
CALL = ("iic", *TINY, *FEW, *DIGITS, "--out", "out/run")


def test_an_estimate_is_shown_drawn_kept_and_reused() -> None:
    out = works("estimate", *CALL)
    for words in ("pretrain 1/1", "trial 4/4", "clusters tried", "on hidden classes", "silhouette"):
        assert words in out
    for words in ("decides", "best accuracy", "warning: 5 known"):
        assert words in out
    found = Folder(Path("out/run")).read_estimate()
    assert found is not None
    assert f"Estimate: {found.num_novel} novel class" in out
    with Image.open("out/run/estimate/estimate.png") as image:
        assert image.format == "PNG"
    assert list(Path("out/pretrained").glob("*.safetensors"))
    discovered = works("discover", *CALL, "--num-novel", "auto")
    assert "trial 1/" not in discovered
    folder = Folder(Path("out/run"))
    source, results = folder.request().source, folder.read_results()
    assert (source.num_novel, source.estimated) == (found.num_novel, "dtc")
    assert len(results.cluster_sizes) == found.num_novel
    assert results.estimate is not None
    assert (results.estimate.low, results.estimate.high) == (found.low, found.high)
    assert results.recipe == "custom"
    assert "task-aware" in works("report", "out/run")
    works("discover", *CALL, "--num-novel", "auto", "--resume")
    before = contents(Path("out"))
    refused(2, ("discover", *CALL, "--num-novel", "auto"), "already holds a run")
    assert contents(Path("out")) == before


def test_own_images_need_no_number(images: OwnImages, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few known classes: by GCD's algorithm. The images are read once for the estimate and the run."""
    opened: list[int] = []

    def opening(paths: list[str], *rest: Any, **more: Any) -> Any:
        if not more["unread"]:
            opened.append(len(paths))
        return open_images(paths, *rest, **more)

    monkeypatch.setattr("newfound.data.folders.open_images", opening)
    out = works("discover", *TINY, *FEW, "encoder=small", *images.options[:4], "--out", "run")
    assert "accuracy on known classes" in out
    assert "by gcd" in out
    assert opened == [24, 21]
    folder = Folder(Path("run"))
    assert folder.request().source.estimated == "gcd"
    assert len(folder.read_results().cluster_sizes) == folder.request().source.num_novel
    call = ("estimate", "iic", *TINY, *FEW, *images.options[:4], "--algorithm", "dtc", "--out", "dtc")
    refused(1, call, "known classes", "Use --num-novel if you know the number.")
    assert not Path("dtc").exists()


def test_it_stops_in_time_and_continues() -> None:
    out = works("estimate", *CALL, "--stop-after", "0s")
    assert "Repeat the command with --resume to continue." in out
    begun = Folder(Path("out/run")).read_estimate()
    assert begun is not None
    assert begun.num_novel is None
    assert "Estimate: " in works("estimate", *CALL, "--resume")


def test_a_run_with_a_number_is_not_resumed_with_an_estimate(images: OwnImages) -> None:
    call = ("discover", *TINY, "encoder=small", *images.options, "--out", "run")
    works(*call, "--stop-after", "0s")
    before = contents(Path("run"))
    unknown = ("discover", *TINY, *FEW, "encoder=small", *images.options[:4], "--out", "run", "--resume")
    refused(2, unknown, "other values of num_novel")
    assert contents(Path("run")) == before


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (("estimate",), ("Use --data NAME, or --labelled and --unlabelled.",)),
        (("estimate", "icc", *DIGITS), ("Unknown method 'icc'", "'iic'")),
        (("estimate", "iic", "estimate.thta=1", *DIGITS), ("'estimate.theta'",)),
        (("estimate", "iic", *DIGITS, "--algorithm", "elbow"), ("--algorithm", "dtc")),
        (("discover", "iic", *DIGITS, "estimate.theta=0.1"), ("'estimate.theta' only applies",)),
    ],
    ids=lambda value: " ".join(value),
)
def test_wrong_calls(call: tuple[str, ...], words: tuple[str, ...]) -> None:
    refused(2, call, *words)
    assert not list(Path().iterdir())
