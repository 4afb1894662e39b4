"""Where images come from: names that outlive a move."""

import pytest

from newfound.data.images import Dataset
from newfound.experiment import Source
from newfound.experiment.source import looking_for


@pytest.mark.parametrize(
    ("labelled", "unlabelled", "paths", "names"),
    [
        ("/a/known", "/a/pile", ["/a/pile/x/1.png", "/a/pile/2.png"], ["x/1.png", "2.png"]),
        ("/a/known.csv", "/b/pile", ["/a/in table/1.png", "/b/pile/2.png"], ["in table/1.png", "2.png"]),
        ("/a/known", "/b/list.txt", ["/b/c/1.png", "/elsewhere/2.png"], ["c/1.png", "2.png"]),
        ("/a/known", "/b/list.txt", ["/c/d/x/1.png", "/c/d/2.png"], ["x/1.png", "2.png"]),
        ("/a/known", "/b/list.txt", ["/c/1.png", "/d/2.png"], ["c/1.png", "d/2.png"]),
        ("/b/known", "/a/pile", ["/a/pile2/1.png"], ["pile2/1.png"]),
        ("/known", "/", ["/x/1.png"], ["x/1.png"]),
        ("/a/b/known", "/a/list.txt", ["/a/b/pile/1.png"], ["b/pile/1.png"]),
        ("/a/known", "/a/list.txt", ["/a/b/pile/1.png"], ["b/pile/1.png"]),
        ("/b/a/known.csv", "/b/pile", ["/b/a/1.png", "/b/pile/2.png"], ["1.png", "2.png"]),
        ("/b/a/known.csv", "/c/pile", ["/b/a/1.png", "/c/pile/2.png"], ["1.png", "2.png"]),
        (None, None, ["train/1", "2"], ["train/1", "2"]),
    ],
)
def test_names_without_the_folder_they_were_given_in(
    labelled: str | None, unlabelled: str | None, paths: list[str], names: list[str]
) -> None:
    assert Source(labelled=labelled, unlabelled=unlabelled).relative(paths) == names


@pytest.mark.parametrize(("number", "told"), [(1, "1 is looked for"), (3, "3 are looked for")])
def test_the_number_that_was_estimated_is_told(digits: Dataset, number: int, told: str) -> None:
    assert looking_for(number, digits).note.endswith(f"; as estimated, {told}")
