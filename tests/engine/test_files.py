"""What newfound wrote is read back, or told to be something else in one sentence."""

from pathlib import Path

import pytest

from newfound.core.errors import RunError
from newfound.engine.files import read_json, write_json

REMEDY = "make it anew"


def test_what_was_written_is_read(tmp_path: Path) -> None:
    write_json(tmp_path / "it.json", {"a": 1, "b": [None, 0.5]})
    assert read_json(tmp_path / "it.json", ("a", "b"), REMEDY) == {"a": 1, "b": [None, 0.5]}


@pytest.mark.parametrize(
    ("content", "got"),
    [
        (b'{"a": 1', "Expecting"),
        (b"", "Expecting value"),
        (b'{"a": "\xff"}', "can't decode"),
        (b"[]", "something else"),
        (b'{"a": 1}', "no b, perhaps since another version"),
        (None, "No such file"),
    ],
)
def test_anything_else_is_named(content: bytes | None, got: str, tmp_path: Path) -> None:
    path = tmp_path / "it.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(
        RunError, match=f"it.json must be the JSON that newfound wrote; got: .*{got}"
    ) as caught:
        read_json(path, ("a", "b"), REMEDY)
    assert str(caught.value).endswith(f"; {REMEDY}")
