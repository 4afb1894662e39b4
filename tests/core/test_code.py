"""What counts as another code of a method, and what does not."""

from pathlib import Path

import pytest

from newfound.core.code import digest_of_code

FILE = '''"""A method."""

@register("mine", published={"cifar10": {"rate": 1}})
@dataclass(frozen=True)
class Mine(Method):
    """It learns."""

    rate: int = 1
    """How fast."""

    def loss(self):
        """What is small in the end."""
        return self.rate * 2  # twice
'''


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  # twice", "  # as the paper has it"),
        ("It learns.", "It learns more."),
        ("How fast.", "How fast it learns."),
        ('"""A method."""', '"""A method, and its paper."""'),
        ("return self.rate * 2", "return (\n            self.rate * 2\n        )"),
        ('{"rate": 1}', '{"rate": 2}'),
    ],
)
def test_text_layout_and_what_is_registered_are_no_code(tmp_path: Path, old: str, new: str) -> None:
    assert _digest(tmp_path, FILE) == _digest(tmp_path, _replaced(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("self.rate * 2", "self.rate * 3"),
        ("rate: int = 1", "rate: int = 2"),
        ("frozen=True", "frozen=False"),
        ("(Method)", "(Other)"),
    ],
)
def test_another_statement_is_another_code(tmp_path: Path, old: str, new: str) -> None:
    assert _digest(tmp_path, FILE) != _digest(tmp_path, _replaced(old, new))


def _replaced(old: str, new: str) -> str:
    assert FILE.count(old) == 1
    return FILE.replace(old, new)


def _digest(folder: Path, text: str) -> str:
    path = folder / "mine.py"
    path.write_text(text)
    return digest_of_code(path, ignoring="register")
