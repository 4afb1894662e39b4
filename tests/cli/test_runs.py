"""Finished runs put to use: review, trust, relocate."""

import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from newfound.run.folder import Folder
from tests.cli.calls import DIGITS, TINY, contents, refused, works
from tests.cli.conftest import Finished, OwnImages


@pytest.mark.slow
def test_the_review_page_is_served_until_ctrl_c(mine: Path) -> None:
    call = [sys.executable, "-u", "-m", "newfound", "review", str(mine)]
    program = subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert program.stdout is not None
    line = program.stdout.readline()
    assert re.fullmatch(r"Open http://127\.0\.0\.1:\d+/\S{16}/\n", line), program.communicate()
    address = line.split()[1]
    with urllib.request.urlopen(address) as answer:
        assert b"novel-1" in answer.read()
    edit = b'{"verb": "rename", "names": {"novel-1": "wasps"}, "seen": 0}'
    with urllib.request.urlopen(urllib.request.Request(f"{address}edit", edit, method="POST")) as answer:
        assert answer.status == 204
    assert "wasps" in works("classes", mine)
    program.send_signal(signal.SIGINT)
    out, err = program.communicate()
    assert (program.returncode, err) == (0, "")
    assert f"Done. `newfound classes {mine}` lists the classes." in out


def test_what_cannot_be_reviewed(mine: Path) -> None:
    refused(2, ("review", mine, "--port", "70000"), "--port")
    refused(2, ("review", "nowhere"), "There is no run in nowhere.")
    request = Folder(mine).request()
    arrays = request.source.model_copy(
        update={"arrays": "0", "labelled": None, "unlabelled": None, "num_novel": None}
    )
    (mine / "config.json").write_text(request.model_copy(update={"source": arrays}).model_dump_json())
    refused(2, ("review", mine), "Python")
    refused(2, ("trust", mine), "Python")


def test_hidden_classes_are_found_with_the_settings_of_the_run(run: Finished) -> None:
    mine = Path(shutil.copytree(run.path, "run"))
    out = works("trust", mine)
    trial = Folder(mine).inner("trust").read_results()
    assert trial.task_aware is not None
    accuracy = 100 * (trial.task_aware.train.acc.best_head or 0)
    assert "2 known classes were hidden" in out
    assert f"(3, 4).\nHidden classes found: {accuracy:.1f} % of their 24 images" in out
    assert "50.0 %" in out  # of one class for all
    assert trial.config == Folder(mine).read_results().config
    works("report", mine)
    assert "2 known classes were hidden" in (mine / "report.html").read_text(encoding="utf-8")
    again = works("trust", mine)
    assert "2 known classes were hidden" in again
    assert "images/s" not in again
    refused(2, ("trust", mine, "--hold-out", "3"), "hides 2 classes, not 3", "Leave out --hold-out")


def test_what_cannot_be_trusted(run: Finished, own_run: Finished) -> None:
    refused(2, ("trust", own_run.path), "known classes")
    refused(2, ("trust", run.path, "--hold-out", "4"), "4", "Leave out --hold-out")
    refused(2, ("trust", "nowhere"), "There is no run in nowhere.")
    assert not (run.path / "trust").exists()


def test_given_weights_are_not_used_for_trust(run: Finished) -> None:
    weights = next((run.path.parent / "pretrained").glob("*.safetensors"))
    works("discover", "iic", *DIGITS, *TINY, f"pretrained={weights}", "--out", "given")
    works("trust", "given")
    assert Folder(Path("given/trust")).read_results().config["pretrained"] == ""


def options(place: Path) -> tuple[str, ...]:
    return "--labelled", str(place / "known"), "--unlabelled", str(place / "pile")


@pytest.fixture
def moved(mine: Path, images: OwnImages) -> tuple[Path, Path]:
    """A run with an edit, and a copy of its images, whose originals count as gone."""
    shutil.copytree(images.labelled.parent, "new place")
    works("classes", mine, "rename", "novel-1=wasps")
    return mine, Path("new place")


def test_a_run_follows_its_images(moved: tuple[Path, Path]) -> None:
    run, place = moved
    before = works("classes", run)
    out = works("relocate", run, *options(place))
    assert f"Updated the image paths of {run}." in out
    assert works("classes", run) == before
    assert "wasps" in before
    source = Folder(run).request().source
    assert (source.labelled, source.unlabelled) == tuple(
        str(place.absolute() / name) for name in ("known", "pile")
    )
    images = [line.split(",")[0] for line in (run / "assignments.csv").read_text().splitlines()[1:]]
    assert sorted(images) == sorted(str(path.absolute()) for path in place.glob("pile/*/*.png"))
    works("export", run, "sorted")
    works("report", run, "--out", "page.html")


def test_a_run_that_is_not_finished_continues_there(images: OwnImages) -> None:
    shutil.copytree(images.labelled.parent, "new place")
    run = ("discover", "iic", *TINY, "encoder=small", "--num-novel", "2", "--out", "run")
    works(*run, *images.options[:4], "--stop-after", "0s")
    there = options(Path("new place"))
    refused(2, (*run, *there, "--resume"), "labelled, unlabelled", "newfound relocate")
    works("relocate", "run", *there)
    works(*run, *there, "--resume")
    assert Folder(Path("run")).results.exists()


def test_images_that_are_gone_and_other_images(moved: tuple[Path, Path], run: Finished) -> None:
    mine, place = moved
    works("relocate", mine, *options(place))
    shutil.move(place, "further")
    refused(2, ("report", mine), "are gone from", "newfound relocate")
    place = Path("further")
    before = contents(mine)
    image = place / "pile" / "monday" / "00.png"
    image.rename(image.with_name("000.png"))
    refused(2, ("relocate", mine, *options(place)), "The names or the order of the images", "have changed")
    image.with_name("000.png").unlink()
    refused(1, ("relocate", mine, *options(place)), "24 + 20 images then, 24 + 19 now")
    shutil.copy(image.with_name("01.png"), image)
    refused(1, ("relocate", mine, *options(place)), "changed")
    refused(1, ("relocate", mine, *options(Path("nowhere"))), "nowhere/known does not exist")
    refused(2, ("relocate", run.path, *options(place)), "cannot be combined with a benchmark")
    assert contents(mine) == before


def test_answers_are_written_to_a_csv_or_a_folder(run: Finished, images: OwnImages) -> None:
    refused(2, ("predict", run.path, images.pile, "--out", "answers.parquet"), "not a .parquet file")
    Path("out.d").mkdir()
    assert "out.d: " in works("predict", run.path, images.pile, "--out", "out.d")
    assert len([*Path("out.d").glob("*.parquet")]) == 1
