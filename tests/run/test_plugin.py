"""The plug-in: UNO with it is IIC, any method with joint logits can have it, the others say so."""

from pathlib import Path

import pytest
import torch

from newfound.core.errors import UsageError
from newfound.core.records import Batch, Clock, Losses, Outputs, Task, total
from newfound.core.registry import method_entry
from newfound.core.settings import ConstraintConfig, Recipe
from newfound.data.dataset import Dataset
from newfound.engine.step import Step, learner_optimiser
from newfound.losses.divergence import inter_class
from newfound.methods.uno import UNO
from newfound.run.preflight import preflight
from newfound.run.recipe import build_method, extra_loss, stage_loader
from tests.tiny import CPU, tiny_recipe, tiny_run, weights_of

ON = {"constraints.alpha": 0.05, "constraints.beta": 0.01}


def step_of(recipe: Recipe, data: Dataset) -> tuple[Step, Batch]:
    """A step as a run makes it, and a batch."""
    method = build_method(recipe, data.split.task, data.split.look, CPU)
    loader = stage_loader("discover", method, recipe, data.split, CPU)
    step = Step(
        method,
        loader,
        learner_optimiser(method, recipe.train["discover"]),
        precision=torch.float32,
        mode="eager",
        extra=extra_loss(recipe.constraints, data.split.task),
    )
    return step, loader.batch(next(loader.draws(0)))


def losses_of(recipe: Recipe, data: Dataset) -> Losses:
    step, batch = step_of(recipe, data)
    return step.forward(batch)


def test_uno_with_the_plug_in_is_iic_to_the_bit(digits: Dataset) -> None:
    iic = losses_of(tiny_recipe("iic", alpha=0.05, beta=0.01), digits)
    uno = losses_of(tiny_recipe("uno-v2", **ON), digits)
    names = {"inter": "constraints.inter", "intra": "constraints.intra"}
    assert [names.get(name, name) for name in iic] == list(uno)
    assert all(torch.equal(a, b) for a, b in zip(iic.values(), uno.values(), strict=True))
    assert torch.equal(total(iic), total(uno))


def test_a_run_of_uno_with_the_plug_in_is_a_run_of_iic(digits: Dataset, tmp_path: Path) -> None:
    iic = tiny_run(tmp_path / "a" / "iic", tiny_recipe("iic", alpha=0.05, beta=0.01), digits)
    uno = tiny_run(tmp_path / "b" / "uno", tiny_recipe("uno-v2", **ON), digits)
    for run in (iic, uno):
        run.discover()
    first, second = weights_of(iic), weights_of(uno)
    assert all(torch.equal(value, second[key]) for key, value in first.items())
    stages = {line.stage: set(line.losses) for line in uno.folder.read_metrics()}
    assert stages == {
        "pretrain": {"ce"},
        "discover": {"ce", "over", "constraints.inter", "constraints.intra"},
    }


def test_the_cross_form_and_its_temperature(digits: Dataset) -> None:
    settings = {"constraints.alpha": 0.3, "constraints.form": "cross", "constraints.tau": 0.2}
    step, batch = step_of(tiny_recipe("uno-v2", **settings), digits)
    out = step.learner(batch, step.clock)
    assert step.extra is not None
    extra = step.extra(out, batch)
    assert set(extra) == {"constraints.inter"}
    assert torch.equal(
        extra["constraints.inter"], -0.3 * inter_class(out["logits"], batch.num_labelled, 0.2, "cross")
    )


@pytest.mark.parametrize("name", ["comex", "rkd", "uno-v1"])
@pytest.mark.parametrize("variation", ["with-constraints", "with-cross-only"])
def test_variations_of_methods_with_joint_logits(name: str, variation: str, digits: Dataset) -> None:
    recipe = tiny_recipe(name, **method_entry(name).variations[variation])
    form = "cross" if variation == "with-cross-only" else "full"
    assert recipe.constraints == ConstraintConfig(alpha=0.05, beta=0.01, form=form)  # type: ignore[arg-type]
    preflight(recipe, digits.split)
    losses = losses_of(recipe, digits)
    assert list(losses)[-2:] == ["constraints.inter", "constraints.intra"]
    assert torch.isfinite(total(losses))


@pytest.mark.parametrize("name", ["kmeans", "rs", "openmix"])
@pytest.mark.parametrize("setting", list(ON))
def test_methods_without_joint_logits_say_so(name: str, setting: str, digits: Dataset) -> None:
    with pytest.raises(UsageError, match=f"{name} has no joint cosine logits"):
        preflight(tiny_recipe(name, **{setting: ON[setting]}), digits.split)
    preflight(tiny_recipe(name), digits.split)


def test_a_method_of_one_view_has_none_to_compare(digits: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    forward = UNO.forward

    def one_view(self: UNO, batch: Batch, clock: Clock) -> Outputs:
        return {name: value[:1] for name, value in forward(self, batch, clock).items()}

    monkeypatch.setattr(UNO, "forward", one_view)
    monkeypatch.setattr(UNO, "loss", lambda self, out, *_: {"ce": out["logits"].mean((0, 2, 3))})
    preflight(tiny_recipe("uno-v2", **{"constraints.alpha": 0.05}), digits.split)
    with pytest.raises(UsageError, match="no joint cosine logits of 2"):
        preflight(tiny_recipe("uno-v2", **ON), digits.split)


def test_without_weights_there_is_no_plug_in() -> None:
    assert extra_loss(ConstraintConfig(), Task(2, 3)) is None


@pytest.mark.parametrize("setting", list(ON))
def test_iic_has_the_terms_itself(setting: str, digits: Dataset) -> None:
    with pytest.raises(UsageError, match=r"iic already has this int.*-class term"):
        preflight(tiny_recipe("iic", **{setting: ON[setting]}), digits.split)
