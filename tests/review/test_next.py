"""The list of images for a next run: who is labelled in it, and by which ids the classes are known."""

import csv
import shutil
from pathlib import Path
from typing import Any

import pytest

from newfound.core.errors import UsageError
from newfound.core.source import Source
from newfound.data.decode import digests_of
from newfound.review.next import next_source
from newfound.review.review import Review
from newfound.run.folder import Folder
from tests.review.runs import logits_of, write_run

CLUSTERS = [0, 0, 1, 1, 2, 2, 2]


@pytest.fixture
def mine(tmp_path: Path) -> Review:
    """Two labelled images; novel classes of two, two and three images, the last of which is unsorted."""
    for name in ("known/ant/0.png", "known/bee/0.png", *(f"pile/{row}.png" for row in range(7))):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    pile = [str(tmp_path / "pile" / f"{row}.png") for row in range(7)]
    source = Source(labelled=str(tmp_path / "known"), unlabelled=str(tmp_path / "pile"))
    facts: dict[str, Any] = {"unsorted": [False] * 6 + [True], "digests": digests_of(pile, strict=True)[0]}
    (ant,) = digests_of([str(tmp_path / "known" / "ant" / "0.png")], strict=True)[0]
    facts["labelled"] = {ant: 0}
    return Review(write_run(tmp_path / "run", logits_of(CLUSTERS), images=pile, source=source, **facts))


def listed(source: Source) -> dict[str, str]:
    """The end of each path → its label."""
    assert source.labelled
    assert source.labelled == source.unlabelled
    with Path(source.labelled).open(newline="") as file:
        return {"/".join(Path(row["path"]).parts[-2:]): row["label"] for row in csv.DictReader(file)}


def test_what_is_settled_is_labelled_and_the_rest_is_the_pile(mine: Review, tmp_path: Path) -> None:
    mine.rename({"novel-1": "zebra"})
    mine.split("zebra")
    mine.undo()
    mine.merge("bee", "novel-2")
    mine.accept("novel-3")
    mine.move("unsorted", "0.png", "5.png")
    source = next_source(mine, Folder(tmp_path / "next"))
    assert listed(source) == {
        **{"ant/0.png": "ant", "bee/0.png": "bee", "pile/0.png": "", "pile/1.png": "zebra"},
        **{"pile/2.png": "bee", "pile/3.png": "bee", "pile/4.png": "novel-3", "pile/5.png": ""},
        "pile/6.png": "",
    }
    assert source.class_ids == {"ant": 0, "bee": 1, "zebra": 2, "novel-3": 4}
    assert source.ids_of(["ant", "bee", "novel-3", "zebra"], 2) == [0, 1, 4, 2, 6, 7]
    assert source.follows == str(tmp_path / "run")


def test_an_id_is_not_used_again(mine: Review, tmp_path: Path) -> None:
    """After a run that found no class of its own, and did not use those before `next_id` either."""
    mine.source = mine.source.model_copy(update={"next_id": 9})
    assert next_source(mine, Folder(tmp_path / "next")).next_id == 9


def test_a_class_is_not_lost_for_its_name(mine: Review, tmp_path: Path) -> None:
    mine.rename({"novel-1": "None"})
    with pytest.raises(UsageError, match="'None' means no label"):
        next_source(mine, Folder(tmp_path / "next"))
    assert not (tmp_path / "next").exists()


def test_nothing_is_settled_before_the_review(mine: Review, tmp_path: Path) -> None:
    assert set(listed(next_source(mine, Folder(tmp_path / "next"))).values()) == {"ant", "bee", ""}


def test_only_the_unsorted_images_form_the_pile(mine: Review, tmp_path: Path) -> None:
    """All classes stay as the edits left them, named or not."""
    mine.merge("novel-3", "novel-1")
    mine.split("novel-2")
    mine.move("unsorted", "0.png")
    source = next_source(mine, Folder(tmp_path / "next"), only="unsorted")
    parts = [mine.names[key] for key in mine.ids[2:4]]
    assert set(parts) == {"novel-2", "novel-2-2"}
    assert listed(source) == {
        **{"ant/0.png": "ant", "bee/0.png": "bee", "pile/0.png": "", "pile/1.png": "novel-3"},
        **{"pile/2.png": parts[0], "pile/3.png": parts[1], "pile/4.png": "novel-3", "pile/5.png": "novel-3"},
        "pile/6.png": "",
    }
    assert source.class_ids == {"ant": 0, "bee": 1, "novel-2": 3, "novel-3": 4, "novel-2-2": 5}
    assert source.next_id == 6


def test_without_unsorted_images_only_new_ones_can_be_searched(mine: Review, tmp_path: Path) -> None:
    out = Folder(tmp_path / "next")
    mine.move("novel-3", "6.png")
    with pytest.raises(UsageError, match="has no unsorted images"):
        next_source(mine, out, only="unsorted")
    assert not out.path.exists()
    (tmp_path / "new.png").write_text("new")
    assert listed(next_source(mine, out, tmp_path / "new.png", only="unsorted"))["pile/6.png"] == "novel-3"


def test_new_images_join_the_pile_and_moved_ones_keep_their_class(mine: Review, tmp_path: Path) -> None:
    mine.rename({"novel-1": "zebra"})
    shutil.copytree(tmp_path / "pile", tmp_path / "new")
    (tmp_path / "pile" / "1.png").unlink()
    (tmp_path / "new" / "1.png").rename(tmp_path / "new" / "8.png")
    (tmp_path / "new" / "9.png").write_text("new")
    shutil.copy(tmp_path / "known" / "ant" / "0.png", tmp_path / "new" / "10.png")
    found = listed(next_source(mine, Folder(tmp_path / "next"), tmp_path / "new"))
    assert (found["pile/0.png"], found["new/8.png"], found["new/9.png"]) == ("zebra", "zebra", "")
    assert "pile/1.png" not in found
    assert "new/0.png" not in found  # a copy of pile/0.png
    assert "new/10.png" not in found  # a copy of a labelled image
    assert len(found) == 2 + 7 + 1


def test_new_images_that_predict_left_unsorted_join_the_pile(mine: Review, tmp_path: Path) -> None:
    for name in ("far", "near"):
        (tmp_path / f"{name}.png").write_text(name)
    (tmp_path / "pile" / "1.png").rename(tmp_path / "moved.png")
    predictions = tmp_path / "predictions.csv"
    lines = ["image,class,kind,confidence,nearest", f"{tmp_path}/far.png,unsorted,unsorted,0.4,ant"]
    lines += [f"{tmp_path}/{name}.png,novel-1,novel,0.9,novel-1" for name in ("near", "moved")]
    predictions.write_text("\n".join(lines))
    only = listed(next_source(mine, Folder(tmp_path / "only"), predictions, only="unsorted"))
    (folder,) = {path.partition("/")[0] for path in only if path.endswith("moved.png")}
    assert (only[f"{folder}/far.png"], only["pile/6.png"]) == ("", "")
    assert only[f"{folder}/moved.png"] == "novel-1"
    assert f"{folder}/near.png" not in only
    every = listed(next_source(mine, Folder(tmp_path / "all"), predictions))
    assert every[f"{folder}/near.png"] == ""


def test_classes_are_not_lost_with_a_pile_that_has_moved(mine: Review, tmp_path: Path) -> None:
    mine.rename({"novel-1": "zebra"})
    (tmp_path / "pile").rename(tmp_path / "moved")
    with pytest.raises(UsageError, match="is where it was"):
        next_source(mine, Folder(tmp_path / "next"))
    assert listed(next_source(mine, Folder(tmp_path / "next"), tmp_path / "moved"))["moved/0.png"] == "zebra"


def test_a_run_that_has_begun_keeps_its_list(mine: Review, tmp_path: Path) -> None:
    out = Folder(tmp_path / "next")
    source = next_source(mine, out, num_novel=2)
    write_run(out.path, logits_of(CLUSTERS), source=source)
    mine.rename({"novel-1": "zebra"})
    assert next_source(mine, out, num_novel=2) == source
    assert "zebra" not in listed(source).values()


def test_refused(mine: Review, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="inside the image folder"):
        next_source(mine, Folder(tmp_path / "pile" / "next"))
    assert not (tmp_path / "pile" / "next").exists()
    other = Review(write_run(tmp_path / "other", logits_of(CLUSTERS), source=Source(benchmark="digits")))
    with pytest.raises(UsageError, match="not a run on your own image files"):
        next_source(other, Folder(tmp_path / "next"))
    with pytest.raises(UsageError, match="a run on images, which embeddings cannot join"):
        next_source(mine, Folder(tmp_path / "next"), embeddings=str(tmp_path / "new.npy"))
