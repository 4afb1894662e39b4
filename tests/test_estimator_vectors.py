"""The estimator on vectors: scikit-learn's own checks, its kinds of labels, and its place in a pipeline."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.decomposition import PCA
from sklearn.metrics import accuracy_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from newfound import NovelClassDiscovery, hungarian_accuracy
from newfound.core.errors import DataError

Vectors = NDArray[np.float64]
Classes = NDArray[np.int64]
NAMES = np.array(["ant", "bee", "cat", "dog", "eel", "fox"])
CONTRADICTED = {"check_classifiers_classes": "its last labels are -1 and 1, and -1 marks the unlabelled"}


@pytest.fixture(scope="module")
def blobs() -> tuple[Vectors, Classes]:
    """Six classes that are easy to tell apart, of which the last two are to be unlabelled."""
    X, classes = make_blobs(180, centers=6, n_features=16, random_state=0)
    return X, classes


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_checks_of_scikit_learn() -> None:
    check_estimator(NovelClassDiscovery(), expected_failed_checks=CONTRADICTED, on_skip=None)


def test_numbers_go_on_from_the_highest(blobs: tuple[Vectors, Classes]) -> None:
    X, classes = blobs
    given = np.where(classes < 4, 2.0 * classes, -1)
    model = NovelClassDiscovery(2)
    labels = model.fit_predict(X, given)
    assert model.classes_.tolist() == [0, 2, 4, 6, 7, 8]
    assert (labels[classes < 4] == given[classes < 4]).all()
    assert hungarian_accuracy(labels[classes >= 4], classes[classes >= 4]) == 1
    assert (model.predict(X) == labels).all()
    assert model.score(X, 2 * classes) == 1
    assert (model.n_features_in_, model.results_.method) == (16, "centroids")
    assert model.transform(X) == pytest.approx(X / np.linalg.norm(X, axis=1, keepdims=True), abs=1e-3)


@pytest.mark.parametrize("marker", ["-1", -1])
def test_strings_and_their_marker(blobs: tuple[Vectors, Classes], marker: object, tmp_path: Path) -> None:
    """Strings that read as numbers stay strings, but a folder cannot tell them apart."""
    X, classes = blobs
    names = NAMES.astype(object)
    names[4:] = marker
    model = NovelClassDiscovery(2).fit(X, names[classes])
    assert model.classes_.tolist() == ["ant", "bee", "cat", "dog", "novel-1", "novel-2"]
    assert model.score(X, NAMES[classes]) == 1
    assert model.results_.classes is not None
    assert model.results_.classes.known == ["ant", "bee", "cat", "dog"]
    model.save(tmp_path / "model")
    again = NovelClassDiscovery.load(tmp_path / "model")
    assert (again.predict(X) == model.labels_).all()
    assert (again.classes_.tolist(), again.n_features_in_) == (model.classes_.tolist(), 16)
    digits = NovelClassDiscovery(2).fit(X, np.array(["0", "1", "2", "3", marker, marker])[classes])
    assert digits.classes_.tolist() == ["0", "1", "2", "3", "novel-1", "novel-2"]


def test_without_unlabelled_vectors_it_is_a_classifier(
    blobs: tuple[Vectors, Classes], caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    X, classes = blobs
    model = NovelClassDiscovery().fit(X[:100], NAMES[classes[:100]])
    assert "No label in y is -1" in caplog.text
    assert (model.labels_ == NAMES[classes[:100]]).all()
    assert model.classes_.tolist() == NAMES.tolist()
    assert accuracy_score(NAMES[classes[100:]], model.predict(X[100:])) == model.score(X, NAMES[classes]) == 1
    model.save(tmp_path / "model")
    again = NovelClassDiscovery.load(tmp_path / "model")
    assert (again.predict(X) == model.predict(X)).all()
    for wrong in (NovelClassDiscovery(2), NovelClassDiscovery(method="uno-v2")):
        with pytest.raises(DataError, match="no unlabelled images"):
            wrong.fit(X, classes)


def test_the_pile_may_be_mixed(blobs: tuple[Vectors, Classes], tmp_path: Path) -> None:
    X, classes = blobs
    given = np.where((classes < 4) & (np.arange(len(X)) % 3 > 0), classes, -1)
    known = (given < 0) & (classes < 4)
    mixed, novel = (NovelClassDiscovery(2, "kmeans", pile=pile).fit(X, given) for pile in ("mixed", None))
    assert (mixed.labels_[known] == classes[known]).all()
    assert (novel.labels_[known] >= 4).all()
    mixed.save(tmp_path / "model")
    again = NovelClassDiscovery.load(tmp_path / "model")
    assert (clone(again).fit(X, given).labels_ == mixed.labels_).all()
    with pytest.raises(ValueError, match="'pile'"):
        NovelClassDiscovery(2, pile="both").fit(X, given)


def test_a_pipeline_clones_and_pickles(blobs: tuple[Vectors, Classes]) -> None:
    X, classes = blobs
    given = np.where(classes < 4, classes, -1)
    chain = make_pipeline(StandardScaler(), PCA(8), NovelClassDiscovery(2))
    labels = chain.fit_predict(X, given)
    assert hungarian_accuracy(labels, classes) == chain.score(X, classes) == 1
    copies = pickle.loads(pickle.dumps(chain)), clone(chain).fit(X, given)
    for copy in copies:
        assert np.array_equal(copy.predict_proba(X), chain.predict_proba(X))
    assert chain[-1].get_feature_names_out().tolist() == [f"novelclassdiscovery{i}" for i in range(8)]
    half = make_pipeline(StandardScaler(), NovelClassDiscovery(2), PCA(3))
    assert half.fit_transform(X, given).shape == (180, 3)


def test_rows_may_be_lists_and_labels_a_column(blobs: tuple[Vectors, Classes]) -> None:
    X, classes = blobs
    given = np.where(classes < 4, classes, -1)
    model, same = NovelClassDiscovery(2), NovelClassDiscovery(2).fit(X, given)
    assert (model.fit(X.tolist(), given.tolist()).labels_ == same.labels_).all()
    with pytest.warns(UserWarning, match="column-vector y"):
        assert (model.fit(X, given[:, None]).labels_ == same.labels_).all()


def test_vectors_that_are_refused(blobs: tuple[Vectors, Classes]) -> None:
    X, classes = blobs
    given = np.where(classes < 4, classes, -1)
    model = NovelClassDiscovery(2)
    with pytest.raises(TypeError, match="parse"):
        model.fit(csr_array(X), given)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.where(X > 5, np.nan, X), given)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(X, given[:-1])
    with pytest.raises(ValueError, match="Expected 2D array"):
        model.fit([], given)
    model.fit(X, given)
    with pytest.raises(ValueError, match="X has 3 features"):
        model.predict(X[:, :3])
