"""The estimator: the conventions of scikit-learn, and that its answers are those of the run."""

import csv
import gc
import json
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
from newfound.run.models import Results
from tests.tiny import QUICK, stripes

pytestmark = pytest.mark.slow

Images = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]


@pytest.fixture(scope="module")
def images() -> Images:
    """Stripes of four kinds, 2, 5, 7 and 9, of which the last two are unlabelled: X, y, true classes."""
    X, kinds = stripes()
    true = np.array([2, 5, 7, 9])[kinds]
    return X, np.where(true < 6, true, -1), true


@pytest.fixture(scope="module")
def fitted(images: Images, tmp_path_factory: pytest.TempPathFactory) -> NovelClassDiscovery:
    out = tmp_path_factory.mktemp("fit") / "run"
    settings = {**QUICK, "epochs": 6}
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
    assert fitted.results_ == Results.model_validate_json((fitted.run_ / "results.json").read_text())


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


def test_a_saved_one_is_loaded_and_fitted_again_with_its_settings(
    fitted: NovelClassDiscovery, images: Images, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From another working directory as well."""
    shares = fitted.predict_proba(images[0])
    monkeypatch.chdir(tmp_path)
    fitted.save("model")
    with pytest.raises(UsageError, match="already exists"):
        fitted.save("model")
    again = NovelClassDiscovery.load("model")
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    assert np.array_equal(again.predict_proba(images[0]), shares)
    assert (again.num_novel, again.method, again.random_state) == (2, "iic", 0)
    again.save("copy")
    assert Path("copy", "config.json").exists()
    assert np.array_equal(clone(again).fit(*images[:2]).predict_proba(images[0]), shares)


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


def test_a_refit_is_a_new_run_and_a_failed_one_changes_nothing(images: Images, tmp_path: Path) -> None:
    """The same random state gives the same bits; without a folder there is one that goes with the object."""
    X, y, _ = images
    found = NovelClassDiscovery(2, settings=QUICK).fit(X, y)
    first, shares = found.run_, found.predict_proba(X)
    with pytest.raises(UsageError, match="Unknown setting 'nothing'"):
        found.set_params(settings={"nothing": 1}).fit(X, y)
    assert found.run_ == first
    found.save(tmp_path / "kept")
    assert found.set_params(settings=QUICK, random_state=1).fit(X, y).run_ != first
    assert not np.array_equal(found.predict_proba(X), shares)
    assert np.array_equal(found.set_params(random_state=0).fit(X, y).predict_proba(X), shares)
    assert np.array_equal(NovelClassDiscovery.load(tmp_path / "kept").predict_proba(X), shares)


def test_a_copy_whose_folder_is_gone(images: Images, tmp_path: Path) -> None:
    """Images of many sizes, labels in a list and a number of another type are taken."""
    X = [image[: 12 - row % 3] for row, image in enumerate(images[0])]
    settings = {**QUICK, "encoder": "small"}
    one = NovelClassDiscovery(np.int64(2), settings=settings).fit(X, images[1].tolist())
    copy = pickle.loads(pickle.dumps(one))
    assert np.array_equal(copy.predict(X), one.predict(X))
    del one
    gc.collect()
    assert not copy.run_.exists()
    with pytest.raises(UsageError, match="no longer exists"):
        copy.save(tmp_path / "model")


def test_the_number_is_estimated_where_it_is_auto(
    images: Images, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    estimate = {"estimate.algorithm": "gcd", "estimate.max_novel": 3, "estimate.restarts": 1}
    settings = {**QUICK, **estimate}
    found = NovelClassDiscovery(out=tmp_path / "run", settings=settings, verbose=True).fit(*images[:2])
    told = capsys.readouterr().out
    assert "trial 1/" in told
    assert f"number of novel classes: {len(found.classes_) - 2}" in told
    assert found.results_.estimate is not None
    assert found.results_.estimate.algorithm == "gcd"
    record = json.loads((tmp_path / "run" / "estimate" / "estimate.json").read_text())
    assert len(found.classes_) == 2 + record["num_novel"]
    NovelClassDiscovery(2, settings=QUICK).fit(*images[:2])
    assert capsys.readouterr().out == "", "silent unless it is verbose"


def test_new_images_of_another_scale_are_warned_of(
    fitted: NovelClassDiscovery, images: Images, caplog: pytest.LogCaptureFixture
) -> None:
    fitted.predict((16 * images[0]).astype(np.uint8))
    assert "too dark" in caplog.text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"num_novel": 0}, "'num_novel' must be"),
        *(({"random_state": state}, "Setting 'seed'") for state in (None, -1, 0.5)),
        ({"settings": {"out": "x"}}, "Unknown setting 'out'"),
        ({"method": "icc"}, "Did you mean 'iic'"),
    ],
)
def test_arguments_that_are_refused(images: Images, arguments: dict[str, Any], words: str) -> None:
    """As a ValueError, which callers of scikit-learn expect."""
    with pytest.raises(ValueError, match=words) as caught:
        NovelClassDiscovery(**({"num_novel": 2} | arguments)).fit(*images[:2])
    assert isinstance(caught.value, NewfoundError)


def test_images_and_folders_that_are_refused(
    fitted: NovelClassDiscovery, images: Images, tmp_path: Path
) -> None:
    X, y, _ = images
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="Each sample needs a label"):
        NovelClassDiscovery(2).fit(X, y[:-1])
    with pytest.raises(RunError, match="is a file"):
        NovelClassDiscovery(2, out=tmp_path / "file").fit(X, y)
    with pytest.raises(UsageError, match="no run in"):
        NovelClassDiscovery.load(tmp_path)
    with pytest.raises(DataError, match=r"n > 0, got \(0,\)"):
        fitted.predict([])
    with pytest.raises(DataError, match="some are -1"):
        fitted.score(X, y)
    with pytest.raises(UsageError, match="already holds a run"):
        clone(fitted).fit(X, y)
