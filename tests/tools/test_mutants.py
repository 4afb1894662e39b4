"""What counts as a mutant, and that the list of equivalent ones is of mutants there are."""

from tools.mutants import Finder, Mutant, equivalents, mutants_of, pytest_calls

SOURCE = b'''"""Not 1 + 1."""

LIMIT = 1 + 1


def loss(p, q, weight: float = 0.5, *, dim: int = 3):
    """Not 2 * 2 either."""
    if weight > 0:
        q = q.detach()
    return (p - q[:1]).mean(dim=-1)
'''


def test_each_place_of_a_function_is_changed_once() -> None:
    found = {(each.before, each.after) for each in Finder("loss.py", SOURCE).found}
    assert found == {
        (line, line.replace(old, new, 1))
        for line, old, new in (
            ("def loss(p, q, weight: float = 0.5, *, dim: int = 3):", "0.5", "1.0"),
            ("def loss(p, q, weight: float = 0.5, *, dim: int = 3):", "3", "4"),
            ("if weight > 0:", "weight > 0", "not (weight > 0)"),
            ("if weight > 0:", ">", ">="),
            ("if weight > 0:", "0", "1"),
            ("q = q.detach()", "q = q.detach()", "pass"),
            ("q = q.detach()", "q.detach()", "q"),
            ("return (p - q[:1]).mean(dim=-1)", "-", "+"),
            ("return (p - q[:1]).mean(dim=-1)", ":1", "1:"),
            ("return (p - q[:1]).mean(dim=-1)", "[:1", "[:2"),
            ("return (p - q[:1]).mean(dim=-1)", "mean", "sum"),
            ("return (p - q[:1]).mean(dim=-1)", "=-1", "=1"),
            ("return (p - q[:1]).mean(dim=-1)", "=-1", "=-2"),
            ("return (p - q[:1]).mean(dim=-1)", "dim=-1", ""),
        )
    }
    assert {each.function for each in Finder("loss.py", SOURCE).found} == {"loss"}


def test_a_mutant_is_tried_with_the_pytest_calls_its_module_and_the_contract() -> None:
    own, contract = pytest_calls("methods/rs")
    assert own == ["tests/methods/test_rs.py"]
    assert contract[-1] == "([rs] or [rs+]) and not compiled"
    assert pytest_calls("pseudo/likeness") == [
        ["tests/pseudo/test_likeness.py", "tests/pseudo/test_metric.py"]
    ]


def test_the_equivalent_mutants_exist() -> None:
    """Otherwise the code has changed, and the reason may no longer hold."""
    files = {key.split(" | ")[0] for key in equivalents()}
    there: set[str] = {mutant.key for file in files for mutant in mutants_of(file)}
    assert equivalents().keys() <= there
    assert all(equivalents().values())
    assert Mutant("a.py", 1, "f", 0, 1, "b", "x", "y").key == "a.py | f | x | y"
