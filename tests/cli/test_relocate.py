"""`newfound relocate`: a run whose images have moved."""

import json
import shutil
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from newfound.core.errors import RunError
from newfound.engine.files import atomic
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


@pytest.mark.parametrize("cut_off", range(4), ids="after {} files".format)
def test_a_call_that_was_cut_off_can_be_repeated(
    moved: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, cut_off: int
) -> None:
    run, place = moved
    for name in ("trust/config.json", "estimate/estimate.json"):
        (run / name).parent.mkdir()
        found = json.loads((run / "config.json").read_text()) | {"low": 1, "high": 3}
        (run / name).write_text(json.dumps(found))
    before, left = works("classes", run), [cut_off]

    def counted(path: Path) -> AbstractContextManager[Path]:
        left[0] -= 1
        if left[0] < 0:
            raise RunError("the disk is full")
        return atomic(path)

    with monkeypatch.context() as patch:
        patch.setattr("newfound.engine.files.atomic", counted)
        refused(1, ("relocate", run, *options(place)), "the disk is full")
    works("relocate", run, *options(place))
    assert works("classes", run) == before
    works("export", run, "sorted")


def test_the_labelled_table_has_a_part_of_the_pile(images: OwnImages) -> None:
    """Two folders hold the pile then, and one of them moves."""
    shutil.copytree(images.labelled.parent, "here")
    lines = [
        f"known/{path.parent.name}/{path.name},{path.parent.name}" for path in Path("here").glob("known/*/*")
    ]
    lines += [f"pile/tuesday/{path.name}," for path in Path("here").glob("pile/tuesday/*")]
    Path("here/all.csv").write_text("path,label\n" + "\n".join(sorted(lines)) + "\n")
    Path("here/pile/monday").rename("apart")
    own = ("--labelled", "here/all.csv", "--unlabelled", "apart", "--num-novel", "2")
    works("discover", *own, *TINY, "encoder=small", "--out", "run")
    works("rename", "run", "novel-1=wasps")
    before = works("classes", "run")
    Path("apart").rename("further apart")
    refused(1, ("report", "run"), "apart does not exist", "newfound relocate run")
    works("relocate", "run", "--unlabelled", "further apart")
    assert works("classes", "run") == before
    works("report", "run")


def test_a_list_of_absolute_paths(images: OwnImages) -> None:
    shutil.copytree(images.labelled.parent, "here")
    Path("lists").mkdir()

    def listed(name: str, place: str) -> str:
        files = sorted(str(path.absolute()) for path in Path(place).glob("pile/*/*"))
        Path("lists", name).write_text("\n".join(files) + "\n")
        return f"lists/{name}"

    own = ("--labelled", images.options[1], "--unlabelled", listed("before.txt", "here"), "--num-novel", "2")
    works("discover", *own, *TINY, "encoder=small", "--out", "run")
    works("rename", "run", "novel-1=wasps")
    before = works("classes", "run")
    Path("here").rename("there")
    works("relocate", "run", "--unlabelled", listed("after.txt", "there"))
    assert works("classes", "run") == before
    works("report", "run")


def test_an_estimate_goes_on_where_its_images_are(images: OwnImages) -> None:
    shutil.copytree(images.labelled.parent, "new place")
    run = ("discover", *TINY, "estimate.max_novel=3", "estimate.restarts=2", "encoder=small", "--out", "run")
    works(*run, *images.options[:4], "--stop-after", "0s")
    assert not Folder(Path("run")).config.exists()
    works(*run, *options(Path("new place")), "--resume")
    assert Folder(Path("run")).source().unlabelled == str(Path("new place/pile").absolute())


def test_other_images_are_refused(moved: tuple[Path, Path], run: Finished) -> None:
    mine, place = moved
    before = contents(mine)
    image = place / "pile" / "monday" / "00.png"
    image.rename(image.with_name("000.png"))
    words = ("1 missing, first monday/00.png", "1 more, first monday/000.png")
    refused(2, ("relocate", mine, *options(place)), "by the same names", *words)
    image.with_name("000.png").unlink()
    refused(2, ("relocate", mine, *options(place)), "1 missing, first monday/00.png; bring")
    shutil.copy(image.with_name("01.png"), image)
    refused(2, ("relocate", mine, *options(place)), "those that the run began with")
    refused(2, ("relocate", mine), "--labelled, --unlabelled or both")
    refused(2, ("relocate", mine, "--unlabelled", "nowhere"), "nowhere", "does not exist", "--unlabelled")
    refused(2, ("relocate", run.path, *options(place)), "own images", "--data-dir")
    assert contents(mine) == before


def test_what_was_changed_by_hand_is_refused(moved: tuple[Path, Path]) -> None:
    """Rows are told from each other by their places alone."""
    mine, place = moved
    table = mine / "assignments.csv"
    head, *rows = table.read_text().splitlines()
    for changed, words in (
        ([head, *reversed(rows)], "in another order"),
        ([head, *rows[:-1]], "1 more"),
        (["other", *rows], "the CSV that newfound wrote"),
    ):
        table.write_text("\n".join(changed) + "\n")
        code = 1 if "other" in changed else 2
        refused(code, ("relocate", mine, *options(place)), words)
    table.write_text("\n".join([head, *rows]) + "\n")
    for name in ("trust/config.json", "estimate/estimate.json"):
        (mine / name).parent.mkdir()
        for broken in ("{", "[]"):
            (mine / name).write_text(broken)
            before = contents(mine)
            refused(1, ("relocate", mine, *options(place)), Path(name).name)
            assert contents(mine) == before
        (mine / name).unlink()
    works("relocate", mine, *options(place))


def test_a_trial_follows_its_run(moved: tuple[Path, Path]) -> None:
    mine, place = moved
    config = json.loads((mine / "config.json").read_text())
    config["data"]["held_out"] = 2
    (mine / "config.json").write_text(json.dumps(config))
    refused(2, ("relocate", mine, *options(place)), "name the run")


def test_splitting_needs_the_images_of_the_class_alone(moved: tuple[Path, Path]) -> None:
    run, place = moved
    works("relocate", run, *options(place))
    shutil.rmtree(place / "known")
    rows = [line.split(",") for line in (run / "assignments.csv").read_text().splitlines()[1:]]
    in_class = [Path(path) for path, name, *_ in rows if name == "novel-1"]
    for path in {Path(path) for path, *_ in rows} - set(in_class):
        path.unlink()
    works("split", run, "wasps")
    works("undo", run)
    in_class[0].unlink()
    refused(1, ("split", run, "wasps"), "got 1 that are not", in_class[0].name)
    shutil.rmtree(place)
    refused(1, ("split", run, "wasps"), "must be where they were", "newfound relocate")
