"""What counts as another code of a method, and what does not."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from newfound.core.code import digest_of_code, forget, modules_of
from newfound.methods.iic import IIC

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


TEXT_OR_LAYOUT = [
    ("  # twice", "  # as the paper has it"),
    ("It learns.", "It learns more."),
    ("How fast.", "How fast it learns."),
    ('"""A method."""', '"""A method, and its paper."""'),
    ("return self.rate * 2", "return (\n            self.rate * 2\n        )"),
    ('{"rate": 1}', '{"rate": 2}'),  # what is registered are settings
]
STATEMENT = [
    ("self.rate * 2", "self.rate * 3"),
    ("rate: int = 1", "rate: int = 2"),
    ("frozen=True", "frozen=False"),
    ("(Method)", "(Other)"),
]


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [(*change, True) for change in TEXT_OR_LAYOUT] + [(*change, False) for change in STATEMENT],
)
def test_another_statement_is_another_code_and_nothing_else_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, same: bool
) -> None:
    assert FILE.count(old) == 1
    _module("mine", tmp_path, monkeypatch, FILE)
    before = digest_of_code(["mine"])
    _module("mine", tmp_path, monkeypatch, FILE.replace(old, new))
    assert (digest_of_code(["mine"]) == before) is same


def test_parts_that_are_imported_count_wherever_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loss that another loss is made of is code of the method; what no part imports is not."""
    files = {
        "mine": "from newfound.losses.outer import loss\nfrom newfound.core.learner import Method\n",
        "newfound.losses.outer": "from newfound.losses import inner\n",
        "newfound.losses.inner": "loss = 1\n",
        "newfound.losses.other": "loss = 1\n",
    }
    for name, text in files.items():
        _module(name, tmp_path, monkeypatch, text)
    before = digest_of_code(["mine"])
    _module("newfound.losses.other", tmp_path, monkeypatch, "loss = 2\n")
    assert digest_of_code(["mine"]) == before
    _module("newfound.losses.inner", tmp_path, monkeypatch, "loss = 2\n")
    assert digest_of_code(["mine"]) != before


def test_two_modules_are_more_than_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _module("mine", tmp_path, monkeypatch, FILE)
    _module("other", tmp_path, monkeypatch, FILE)
    assert digest_of_code(["mine", "other"]) == digest_of_code(["other", "mine"]) != digest_of_code(["mine"])


def test_without_a_file_nothing_can_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mine", ModuleType("mine"))
    assert digest_of_code(["mine"]) == digest_of_code(["never imported"]) == ""


def test_what_a_method_inherits_is_its_code_and_the_contracts_are_not() -> None:
    class Mine(IIC):
        pass

    assert modules_of(Mine) == [__name__, "newfound.methods.iic"]


def test_what_was_loaded_counts_until_it_is_loaded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _module("mine", tmp_path, monkeypatch, FILE)
    before = digest_of_code(["mine"])
    (tmp_path / "mine.py").write_text("")
    assert digest_of_code(["mine"]) == before
    forget()
    assert digest_of_code(["mine"]) != before


def _module(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    module = ModuleType(name)
    path = folder / f"{name}.py"
    path.write_text(text)
    module.__file__ = str(path)
    forget()
    monkeypatch.setitem(sys.modules, name, module)
