"""RotNet's four turns and its loss, as loops."""

import torch
import torch.nn.functional as F

from newfound.core.learner import NoSettings
from newfound.core.records import Batch, Clock, Task
from newfound.nn.encoders.small import SmallEncoder
from newfound.stages.rotnet import RotNet

CLOCK = Clock(torch.zeros(()))


def test_the_loss_is_that_of_telling_four_turns_apart() -> None:
    torch.manual_seed(0)
    learner = RotNet(SmallEncoder(), Task(2, 2), NoSettings()).eval()
    images = torch.rand(3, 3, 8, 8)
    batch = Batch((images[None],), torch.zeros(1, dtype=torch.int64), torch.arange(3))
    expected = 0.0
    for turns in range(4):
        for image in images:
            logits = learner.turn(learner.encoder(image.rot90(turns, (1, 2))[None]))
            expected += F.cross_entropy(logits, torch.tensor([turns])).item() / 12
    loss = learner.loss(learner(batch, CLOCK), batch, CLOCK)["turn"]
    torch.testing.assert_close(loss.item(), expected, rtol=1e-5, atol=1e-6)
