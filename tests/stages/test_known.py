"""The supervised stage of the RS family."""

import torch
import torch.nn.functional as F

from newfound.core.learner import NoSettings
from newfound.core.records import Batch, Clock, Task
from newfound.nn.small import SmallEncoder
from newfound.stages.known import Known


def test_the_loss_is_cross_entropy_and_a_frozen_trunk_gets_no_gradient() -> None:
    torch.manual_seed(0)
    learner = Known(SmallEncoder(), Task(3, 2), NoSettings())
    learner.encoder.freeze_trunk()
    learner.eval()
    images, labels = torch.rand(4, 3, 8, 8), torch.tensor([0, 2, 1, 1])
    batch, clock = Batch((images[None],), labels, torch.arange(4)), Clock(torch.zeros(()))
    loss = learner.loss(learner(batch, clock), batch, clock)["ce"]
    torch.testing.assert_close(loss, F.cross_entropy(learner.h(learner.encoder(images)), labels))
    loss.backward()  # type: ignore[no-untyped-call]
    trained = {name for name, p in learner.named_parameters() if p.grad is not None}
    assert trained == {
        "encoder.block.0.weight",
        "encoder.block.1.weight",
        "encoder.block.1.bias",
        "h.weight",
        "h.bias",
    }
