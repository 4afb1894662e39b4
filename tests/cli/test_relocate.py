"""`newfound relocate`: a run whose images have moved."""

import json
import shutil
from pathlib import Path

import pytest

from newfound.experiment import Folder
from tests.cli.calls import TINY, contents, refused, works
from tests.cli.conftest import Finished, OwnImages


@pytest.fixture
def moved(own_run: Finished, images: OwnImages) -> tuple[Path, Path]:
    """A copy of the run with an edit, and of its images, of which the originals count as gone."""
    shutil.copytree(images.labelled.parent, "new place")
    shutil.copytree(own_run.path, "run")
    works("rename", "run", "novel-1=wasps")
    return Path("run"), Path("new place")


def options(place: Path) -> tuple[str, ...]:
    return "--labelled", str(place / "known"), "--unlabelled", str(place / "pile")


def test_a_run_follows_its_images(moved: tuple[Path, Path]) -> None:
    run, place = moved
    before = works("classes", run)
    works("relocate", run, *options(place))
    assert works("classes", run) == before
    assert "wasps" in before
    found = json.loads((run / "config.json").read_text())["data"]
    assert [found[key] for key in ("labelled", "unlabelled")] == [
        str(place.absolute() / name) for name in ("known", "pile")
    ]
    images = [line.split(",")[0] for line in (run / "assignments.csv").read_text().splitlines()[1:]]
    assert sorted(images) == sorted(str(path.absolute()) for path in place.glob("pile/*/*.png"))
    works("export", run, "sorted")
    works("split", run, "wasps")
    works("report", run, "--out", "page.html")


def test_a_run_that_is_not_finished_goes_on_there(images: OwnImages) -> None:
    shutil.copytree(images.labelled.parent, "new place")
    run = ("discover", "iic", *TINY, "encoder=small", "--out", "run")
    works(*run, *images.options, "--stop-after", "0s")
    there = options(Path("new place"))
    refused(2, (*run, *there, "--num-novel", "2", "--resume"), "labelled, unlabelled", "newfound relocate")
    works("relocate", "run", *there)
    works(*run, *there, "--num-novel", "2", "--resume")
    assert Folder(Path("run")).results.exists()


def test_trust_and_estimate_follow(moved: tuple[Path, Path]) -> None:
    run, place = moved
    for name in ("trust/config.json", "estimate/estimate.json"):
        (run / name).parent.mkdir()
        shutil.copy(run / "config.json", run / name)
    found = json.loads((run / "estimate/estimate.json").read_text())
    (run / "estimate/estimate.json").write_text(json.dumps(found | {"low": 1, "high": 3}))
    works("relocate", run, *options(place))
    for name in ("config.json", "trust/config.json", "estimate/estimate.json"):
        assert json.loads((run / name).read_text())["data"]["unlabelled"] == str(place.absolute() / "pile")


def test_other_images_are_refused(moved: tuple[Path, Path], run: Finished) -> None:
    mine, place = moved
    before = contents(mine)
    image = place / "pile" / "monday" / "00.png"
    image.rename(image.with_name("000.png"))
    refused(2, ("relocate", mine, *options(place)), "kept their names", "/monday/000.png for /monday/00.png")
    image.with_name("000.png").unlink()
    refused(2, ("relocate", mine, *options(place)), "those that the run began with")
    refused(2, ("relocate", mine), "--labelled, --unlabelled or both")
    refused(1, ("relocate", mine, "--unlabelled", "nowhere"), "nowhere", "does not exist")
    refused(2, ("relocate", run.path, *options(place)), "own images", "--data-dir")
    assert contents(mine) == before
