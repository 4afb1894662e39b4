"""The contract of every registered method."""

from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch

from newfound.core.learner import Learner
from newfound.core.records import Batch, Clock, total
from newfound.core.registry import method_entry, method_names, recipe_for
from newfound.core.settings import RunConfig, TrainConfig, override
from newfound.data.dataset import Dataset
from newfound.data.loader import Loader
from newfound.nn.heads import CosineHead, MultiHead
from newfound.run.pile import Pile
from newfound.run.recipe import build_method
from newfound.run.trained import Trained
from tests.tiny import CPU, tiny_recipe, tiny_run, weights_of

pytestmark = pytest.mark.slow

METHODS = method_names()


def learner_and_batch(name: str, dataset: Dataset) -> tuple[Learner, Batch, Clock]:
    recipe, split = tiny_recipe(name), dataset.split
    method = build_method(recipe, split.task, split.look, CPU)
    loader = Loader(
        split,
        method.views,
        replace(recipe.train["discover"], batch_size=48),
        uses=method.uses,
        seed=0,
        stage="discover",
        device=CPU,
    )
    return method, loader.batch(next(loader.draws(0))), Clock(torch.zeros(()))


@pytest.mark.parametrize("name", METHODS)
def test_loss_is_finite_and_every_trainable_parameter_gets_a_gradient(name: str, digits: Dataset) -> None:
    method, batch, clock = learner_and_batch(name, digits)
    losses = method.loss(method(batch, clock), batch, clock)
    assert all(torch.isfinite(value).all() for value in losses.values())
    trainable = {key: p for key, p in method.named_parameters() if p.requires_grad}
    if trainable:
        total(losses).backward()  # type: ignore[no-untyped-call]
    without = [key for key, p in trainable.items() if p.grad is None or not p.grad.abs().sum() > 0]
    assert not without


def gradient(name: str, dataset: Dataset, compiled: bool) -> torch.Tensor:
    """Of all parameters in one row, in the second of two steps, after memories were updated."""
    method, batch, clock = learner_and_batch(name, dataset)

    def step() -> torch.Tensor:
        return total(method.loss(method(batch, clock), batch, clock))

    torch.compiler.reset()
    # What a compiled step computes, recomputation in the backward pass included, without its kernels.
    call = torch.compile(step, backend="aot_eager_decomp_partition", dynamic=False) if compiled else step
    for seed in range(2):
        method.zero_grad()
        torch.manual_seed(seed)
        call().backward()  # type: ignore[no-untyped-call]
    return torch.cat([p.grad.flatten() for p in method.parameters() if p.grad is not None])


@pytest.mark.parametrize("name", [name for name in METHODS if name not in ("centroids", "kmeans")])
def test_gradients_are_the_same_where_the_step_is_compiled(name: str, digits: Dataset) -> None:
    eager, compiled = (gradient(name, digits, compiled) for compiled in (False, True))
    assert eager.norm() > 0
    assert (compiled - eager).norm() < 0.01 * eager.norm()


@pytest.mark.parametrize("name", METHODS)
def test_scores_cover_all_classes_for_every_head(name: str, digits: Dataset) -> None:
    method = build_method(tiny_recipe(name), digits.split.task, digits.split.look, CPU).eval()
    images, task = torch.rand(7, 3, 8, 8), digits.split.task
    scores = method.scores(images)
    assert scores.shape[1:] == (7, task.num_classes)
    assert torch.isfinite(scores).all()
    joint, novel = method.both_scores(images)
    assert torch.equal(joint, scores)
    assert novel.shape == (len(scores), 7, task.num_novel)
    if name not in ("rs+", "comex", "centroids"):  # the two come from different heads, experts or views
        torch.testing.assert_close(novel.softmax(-1), scores[..., task.num_known :].softmax(-1))


@pytest.mark.parametrize("name", METHODS)
def test_both_scores_encode_an_image_once(name: str, digits: Dataset) -> None:
    method = build_method(tiny_recipe(name), digits.split.task, digits.split.look, CPU).eval()
    seen: list[int] = []
    method.encoder.last_block.register_forward_hook(lambda block, given, out: seen.append(len(out)))
    method.both_scores(torch.rand(7, 3, 8, 8))
    assert seen == [7]


@pytest.mark.parametrize("name", METHODS)
def test_logged_terms_add_up_to_what_is_minimised(name: str, digits: Dataset, tmp_path: Path) -> None:
    method, batch, clock = learner_and_batch(name, digits)
    losses = method.loss(method(batch, clock), batch, clock)
    assert sum(value.mean().item() for value in losses.values()) == pytest.approx(
        total(losses).item(), rel=1e-5
    )


@pytest.mark.parametrize("name", METHODS)
def test_prototypes_have_unit_length_after_a_step(name: str, digits: Dataset) -> None:
    method = build_method(tiny_recipe(name), digits.split.task, digits.split.look, CPU)
    heads = [each for each in method.modules() if isinstance(each, CosineHead | MultiHead)]
    prototypes = [each.prototypes for each in heads if each.prototypes.requires_grad]
    with torch.no_grad():
        for rows in prototypes:
            rows.mul_(2)
    method.after_step()
    for rows in prototypes:
        torch.testing.assert_close(rows.norm(dim=-1), torch.ones(rows.shape[:-1]))


@pytest.mark.parametrize("name", METHODS)
def test_same_seed_same_bits_and_hidden_labels_change_none(
    name: str, digits: Dataset, tmp_path: Path
) -> None:
    assert digits.truth is not None
    shuffled = replace(
        digits.truth, labels=digits.truth.labels.flip(0), test_labels=digits.truth.test_labels.flip(0)
    )
    recipe = tiny_recipe(name)
    runs = [
        tiny_run(tmp_path / str(i) / "run", recipe, replace(digits, truth=truth))
        for i, truth in enumerate((digits.truth, shuffled, None))
    ]
    for run in runs:
        run.discover()
    weights = [weights_of(run) for run in runs]
    for other in weights[1:]:
        assert all(torch.equal(value, other[key]) for key, value in weights[0].items())


@pytest.mark.parametrize("name", METHODS)
def test_another_seed_gives_other_weights(name: str, digits: Dataset, tmp_path: Path) -> None:
    runs = [tiny_run(tmp_path / str(seed), tiny_recipe(name, seed=seed), digits) for seed in (0, 1)]
    for run in runs:
        run.discover()
    first, second = (weights_of(run) for run in runs)
    assert any(not torch.equal(value, second[key]) for key, value in first.items())


@pytest.mark.parametrize("name", METHODS)
def test_saved_weights_give_the_same_scores(name: str, digits: Dataset, tmp_path: Path) -> None:
    run = tiny_run(tmp_path / "run", tiny_recipe(name), digits)
    run.discover()
    scores = Trained.load(run.folder).scores(digits.split.unlabelled)
    assert torch.equal(scores, torch.from_numpy(Pile.read(run.folder.pile).logits))


@pytest.mark.parametrize("name", METHODS)
def test_published_and_own_values_are_settings(name: str) -> None:
    entry = method_entry(name)
    for benchmark, values in {**entry.published, **entry.ours}.items():
        recipe = recipe_for(name, benchmark)
        flat = recipe.flat()
        assert all(flat[key] == value for key, value in values.items())
        assert override(recipe, {}) == recipe


@pytest.mark.parametrize("name", METHODS)
def test_settings_have_one_meaning(name: str) -> None:
    names = [
        field.name
        for config in (method_entry(name).method.Config, TrainConfig, RunConfig)
        for field in fields(config)
    ]
    assert len(names) == len(set(names))
