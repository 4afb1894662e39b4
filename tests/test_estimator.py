"""The estimator: the conventions of scikit-learn, and that it says what the run says."""

import csv
import errno
import gc
import json
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from newfound import NewfoundError, NovelClassDiscovery
from newfound.core.errors import DataError, RunError, UsageError
from tests.tiny import NARROW, TINY

Images = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]


@pytest.fixture(scope="module")
def images() -> Images:
    """Stripes of four kinds, 2, 5, 7 and 9, of which the last two are unlabelled: X, y, true classes."""
    random = np.random.default_rng(0)
    kinds = np.repeat([2, 5, 7, 9], 15)
    stripes = random.random((60, 12, 12)) * 0.3
    for image, kind in zip(stripes, np.repeat(range(4), 15), strict=True):
        image[kind::4] += 0.7
    order = random.permutation(60)
    stripes, kinds = stripes[order], kinds[order]
    return stripes, np.where(kinds < 6, kinds, -1), kinds


@pytest.fixture(scope="module")
def fitted(images: Images, tmp_path_factory: pytest.TempPathFactory) -> NovelClassDiscovery:
    out = tmp_path_factory.mktemp("fit") / "run"
    settings = {**TINY, **NARROW, "epochs": 12, "pretrain.epochs": 6}
    return NovelClassDiscovery(2, out=out, settings=settings).fit(*images[:2])


def test_given_labels_stay_and_new_ones_go_on_from_the_highest(
    fitted: NovelClassDiscovery, images: Images
) -> None:
    assert fitted.classes_.tolist() == [2, 5, 6, 7]
    known = images[1] >= 0
    assert (fitted.labels_[known] == images[1][known]).all()
    assert set(fitted.labels_[~known]) <= {6, 7}


def test_found_labels_are_those_of_the_run(fitted: NovelClassDiscovery, images: Images) -> None:
    with (fitted.run_ / "assignments.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    names = {"novel-1": 6, "novel-2": 7}
    assert [names[row["class"]] for row in rows] == fitted.labels_[images[1] < 0].tolist()
    assert fitted.results_ == json.loads((fitted.run_ / "results.json").read_text())


def test_predictions_are_the_most_probable_classes(fitted: NovelClassDiscovery, images: Images) -> None:
    shares = fitted.predict_proba(images[0])
    assert shares.shape == (60, 4)
    assert shares.sum(1) == pytest.approx(np.ones(60), abs=1e-5)
    assert fitted.predict(images[0]).tolist() == fitted.classes_[shares.argmax(1)].tolist()
    assert fitted.transform(images[0]).shape[0] == 60
    among_novel = fitted.classes_[2 + shares[:, 2:].argmax(1)]
    novel = images[1] < 0
    assert among_novel[novel].tolist() == fitted.labels_[novel].tolist()


def test_the_score_by_its_definition(fitted: NovelClassDiscovery, images: Images) -> None:
    """Known classes as they are, new ones matched one to one among the new ids."""
    X, _, true = images
    predicted = fitted.predict(X)
    best = max(
        sum(
            int(guess == {2: 2, 5: 5, **new}[int(kind)])
            for guess, kind in zip(predicted.tolist(), true.tolist(), strict=True)
        )
        for new in ({7: 6, 9: 7}, {7: 7, 9: 6})
    )
    assert fitted.score(X, true) == pytest.approx(best / 60)


def test_saved_and_loaded(fitted: NovelClassDiscovery, images: Images, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model")
    again = NovelClassDiscovery.load(tmp_path / "model")
    assert np.array_equal(again.predict_proba(images[0]), fitted.predict_proba(images[0]))
    assert (again.num_novel, again.method, again.random_state) == (2, "iic", 0)
    with pytest.raises(UsageError, match="is there already"):
        fitted.save(tmp_path / "model")


def test_a_relative_folder_is_found_from_another(
    images: Images, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    one = NovelClassDiscovery(2, out="run", settings={**TINY, **NARROW}).fit(*images[:2])
    again = NovelClassDiscovery.load("run")
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    for number, each in enumerate((one, again)):
        each.save(f"model-{number}")
        assert Path(f"model-{number}", "config.json").exists()


def test_the_conventions_of_scikit_learn(images: Images) -> None:
    blank = NovelClassDiscovery(3, "uno-v2", random_state=5, settings={"epochs": 1})
    copy = clone(blank)
    assert copy.get_params() == blank.get_params()
    assert copy.set_params(num_novel=4).num_novel == 4
    for call in (copy.predict, copy.predict_proba, copy.transform):
        with pytest.raises(NotFittedError):
            call(images[0])
    with pytest.raises(NotFittedError):
        copy.score(images[0], images[2])


def test_the_seed_is_the_random_state(images: Images) -> None:
    """Without a folder there is one that goes with the object; the same state gives the same bits."""
    settings = {**TINY, **NARROW}
    one, same, other = (
        NovelClassDiscovery(2, random_state=state, settings=settings)
        .fit(*images[:2])
        .predict_proba(images[0])
        for state in (1, 1, 2)
    )
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_the_page_knows_of_the_estimate(
    images: Images,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its lines and warnings come from `fit`, and no line speaks of another number."""
    for where in ("estimation", "finish"):
        monkeypatch.setattr(f"newfound.experiment.{where}.warnings_for", lambda *found, told=where: [told])
    estimate = {"estimate.algorithm": "gcd", "estimate.max_novel": 3, "estimate.restarts": 1}
    settings = {**TINY, **NARROW, **estimate}
    with pytest.warns(UserWarning, match="estimation|finish") as caught:
        found = NovelClassDiscovery(out=tmp_path / "run", settings=settings, verbose=True).fit(*images[:2])
    assert [str(warning.message) for warning in caught] == ["estimation", "finish"]
    assert {warning.filename for warning in caught} == {__file__}
    told = capsys.readouterr().out
    assert "trial 1/" in told
    assert f"as estimated, {len(found.classes_) - 2} are looked for" in told
    assert "1 novel class" not in told
    assert "that number is an estimate (gcd)" in (found.run_ / "report.html").read_text(encoding="utf-8")
    record = json.loads((tmp_path / "run" / "estimate" / "estimate.json").read_text())
    assert len(found.classes_) == 2 + record["num_novel"]


def test_a_refit_is_a_new_run_and_a_failed_one_changes_nothing(images: Images, tmp_path: Path) -> None:
    X, y, _ = images
    settings = {**TINY, **NARROW}
    found = NovelClassDiscovery(2, settings=settings).fit(X, y)
    first, shares = found.run_, found.predict_proba(X)
    with pytest.raises(UsageError, match="unknown setting 'nothing'"):
        found.set_params(settings={"nothing": 1}).fit(X, y)
    assert found.run_ == first
    found.save(tmp_path / "kept")
    assert found.set_params(settings=settings, random_state=1).fit(X, y).run_ != first
    assert np.array_equal(NovelClassDiscovery.load(tmp_path / "kept").predict_proba(X), shares)


def test_new_images_of_another_scale_are_warned_of(fitted: NovelClassDiscovery, images: Images) -> None:
    with pytest.warns(UserWarning, match="the images look too dark"):
        fitted.predict((16 * images[0]).astype(np.uint8))


def test_a_run_that_is_not_kept_names_no_page(images: Images, capsys: pytest.CaptureFixture[str]) -> None:
    NovelClassDiscovery(2, settings={**TINY, **NARROW}, verbose=True).fit(*images[:2])
    assert "report.html" not in capsys.readouterr().out


def test_a_full_disk_is_told_with_an_argument_that_there_is(
    images: Images, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunError, match=r"then repeat the call, with another out$"):
        NovelClassDiscovery(2, out=tmp_path / "run", settings={**TINY, **NARROW}).fit(*images[:2])


def test_a_loaded_one_is_fitted_again_with_its_settings(
    fitted: NovelClassDiscovery, images: Images, tmp_path: Path
) -> None:
    fitted.save(tmp_path / "model")
    again = clone(NovelClassDiscovery.load(tmp_path / "model")).fit(*images[:2])
    assert np.array_equal(again.predict_proba(images[0]), fitted.predict_proba(images[0]))


def test_images_of_many_sizes_and_labels_of_many_kinds(images: Images) -> None:
    X = [image[: 12 - row % 3] for row, image in enumerate(images[0])]
    settings = {**TINY, **NARROW, "pretrain.epochs": 1, "encoder": "small"}
    found = NovelClassDiscovery(np.int64(2), settings=settings).fit(X, images[1].tolist())
    assert len(found.predict(X[:5])) == 5


def test_a_copy_whose_folder_has_gone(images: Images, tmp_path: Path) -> None:
    one = NovelClassDiscovery(2, settings={**TINY, **NARROW}).fit(*images[:2])
    copy = pickle.loads(pickle.dumps(one))
    assert np.array_equal(copy.predict(images[0]), one.predict(images[0]))
    del one
    gc.collect()
    with pytest.raises(UsageError, match="is gone; one that fit made goes with the object"):
        copy.save(tmp_path / "model")


def test_it_is_silent_unless_asked(images: Images, capsys: pytest.CaptureFixture[str]) -> None:
    NovelClassDiscovery(2, settings={**TINY, **NARROW}).fit(*images[:2])
    assert capsys.readouterr().out == ""
    NovelClassDiscovery(2, settings={**TINY, **NARROW}, verbose=True).fit(*images[:2])
    assert "pretrained encoder" in capsys.readouterr().out


@pytest.mark.parametrize("number", [0, 2.0, "3", None, True])
def test_numbers_that_are_none(images: Images, number: Any) -> None:
    with pytest.raises(UsageError, match="num_novel must be at least 1 class"):
        NovelClassDiscovery(number).fit(*images[:2])


@pytest.mark.parametrize(
    ("settings", "said"), [({"seed": 9}, "random_state"), ({"out": "x"}, "as out"), ([1], "a dict")]
)
def test_settings_that_are_none(images: Images, settings: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        NovelClassDiscovery(2, settings=settings).fit(*images[:2])


def test_what_is_refused(images: Images, tmp_path: Path) -> None:
    X, y, _ = images
    with pytest.raises(DataError, match="labels must be one integer for each image"):
        NovelClassDiscovery(2).fit(X, y[:-1])
    with pytest.raises(UsageError, match="unknown method 'icc'"):
        NovelClassDiscovery(2, "icc").fit(X, y)
    with pytest.raises(UsageError, match="a run must be in"):
        NovelClassDiscovery.load(tmp_path)
    with pytest.raises(DataError, match="there must be images"):
        NovelClassDiscovery(2).fit([], y)


@pytest.mark.parametrize("state", [None, np.random.RandomState(0), -1, 0.5])
def test_random_states_that_are_no_seed(images: Images, state: Any) -> None:
    with pytest.raises(UsageError, match="random_state must be a whole number from 0; got"):
        NovelClassDiscovery(2, random_state=state).fit(*images[:2])


def test_out_is_called_so(images: Images, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match=r"/file must be writable; got: .*; choose another out$"):
        NovelClassDiscovery(2, out=tmp_path / "file").fit(*images[:2])
    with pytest.raises(UsageError, match="out must be a path; got 5"):
        NovelClassDiscovery(2, out=5).fit(*images[:2])


def test_bad_input_is_a_value_error(images: Images) -> None:
    for number, labels in ((0, images[1]), (2, images[1][:-1])):
        with pytest.raises(ValueError, match="must be") as caught:
            NovelClassDiscovery(number).fit(images[0], labels)
        assert isinstance(caught.value, NewfoundError)


def test_what_a_fitted_one_refuses(fitted: NovelClassDiscovery, images: Images) -> None:
    X, y, _ = images
    with pytest.raises(DataError, match="there must be images"):
        fitted.predict([])
    with pytest.raises(DataError, match="the class of every image; got -1"):
        fitted.score(X, y)
    with pytest.raises(DataError, match="got generator without a length"):
        fitted.score((image for image in X), y)
    with pytest.raises(UsageError, match=r"set_params\(out=...\)"):
        clone(fitted).fit(X, y)


def test_too_few_labelled_images_are_warned_of_before_anything_else(images: Images) -> None:
    alone = np.where(images[1] == 2, 2, -1)
    with (
        pytest.warns(UserWarning, match="a single known class") as caught,
        pytest.raises(UsageError, match="unknown method"),
    ):
        NovelClassDiscovery(3, "icc").fit(images[0], alone)
    assert caught[0].filename == __file__
