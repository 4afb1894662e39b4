"""The similarity network against its definition, one pair after the other."""

import torch
import torch.nn.functional as F

from newfound.core.learner import NoSettings
from newfound.core.records import Batch, Clock, Task
from newfound.core.registry import stage_class
from newfound.nn.encoders.small import SmallEncoder
from newfound.stages.similarity import Similarity, SimilarityNetwork
from newfound.stages.supervised import Known

TASK = Task(3, 2)
CLOCK = Clock(torch.zeros(()))


def stage() -> Similarity:
    torch.manual_seed(0)
    return Similarity(SmallEncoder(), TASK, NoSettings()).train()


def batch() -> Batch:
    torch.manual_seed(1)
    return Batch((torch.rand(1, 5, 3, 8, 8),), torch.tensor([0, 2, 1, 1, 0]), torch.arange(5))


def test_a_pair_is_both_features_side_by_side_in_this_order() -> None:
    torch.manual_seed(0)
    network, maps = SimilarityNetwork(SmallEncoder()), torch.rand(4, 64, 2, 2)
    z = network.block(maps).mean(dim=(2, 3))
    sides = torch.stack([torch.cat([z[i], z[j]]) for i in range(4) for j in range(4)])
    expected = network.out(F.relu(network.norm(network.hidden(sides))))
    found = network(network.features(maps))
    assert found.shape == (4, 4, 2)
    for i in range(4):
        for j in range(4):
            torch.testing.assert_close(found[i, j], expected[4 * i + j], rtol=1e-4, atol=1e-5)


def test_pairs_are_decided_in_float32_under_any_autocast() -> None:
    torch.manual_seed(0)
    network, maps = SimilarityNetwork(SmallEncoder()), torch.rand(4, 64, 2, 2)
    with torch.autocast("cpu", torch.bfloat16):
        z = network.features(maps)
        compared = network(z)
    assert z.dtype == compared.dtype == torch.float32
    assert torch.equal(compared, network(z))


def test_the_loss_is_the_mean_over_all_ordered_pairs() -> None:
    learner, images = stage(), batch()
    out = learner(images, CLOCK)
    expected = 0.0
    for i in range(5):
        for j in range(5):
            same = int(images.labels[i] == images.labels[j])
            expected -= out["pairs"][i, j].double().log_softmax(-1)[same].item() / 25
    torch.testing.assert_close(learner.loss(out, images, CLOCK)["ce"].item(), expected, rtol=1e-5, atol=1e-6)


def test_training_leaves_the_classifier_as_it_is_to_the_bit() -> None:
    learner, images = stage(), batch()
    before = {key: value.clone() for key, value in learner.state_dict().items()}
    optimiser = torch.optim.SGD(learner.parameters(), 0.1)
    learner.loss(learner(images, CLOCK), images, CLOCK)["ce"].backward()  # type: ignore[no-untyped-call]
    optimiser.step()
    after = learner.state_dict()
    changed = {key.split(".")[0] for key in before if not torch.equal(before[key], after[key])}
    assert changed == {"similarity"}
    assert all(p.grad is not None for p in learner.similarity.parameters())


def test_it_starts_from_the_last_block_of_the_classifier() -> None:
    torch.manual_seed(7)
    weights = Known(SmallEncoder(), TASK, NoSettings()).state_dict()
    learner = stage()
    assert {"h.weight", "encoder.block.0.weight"} <= set(learner.adopt(weights))
    assert torch.equal(learner.h.weight, weights["h.weight"])
    for key, value in learner.similarity.block.state_dict().items():
        assert torch.equal(value, weights[f"encoder.block.{key}"])


def test_it_is_the_stage_called_similarity_and_sees_labelled_images() -> None:
    assert stage_class("similarity") is Similarity
    assert Similarity.uses == "labelled"
