"""The straightforward network says what IIC's says when both have the same weights."""

import torch

from newfound.bench.baseline.network import Network
from newfound.core.records import Batch, Clock, Task
from newfound.methods.iic import IIC
from newfound.nn.heads import MultiHead
from newfound.nn.small import SmallEncoder

CONFIG = IIC.Config(heads=2, hidden=6, projection=4, overcluster=3)
TASK = Task(3, 2)


def _copy(ours: MultiHead, theirs: torch.nn.ModuleList) -> None:
    """Every head's slice of the batched weights; where ours has no bias, theirs is zero."""
    hidden = CONFIG.hidden
    for k, head in enumerate(theirs):
        rows = slice(k * hidden, (k + 1) * hidden)
        head.load_state_dict(
            {
                "projector.0.weight": ours.hidden_weight[k],
                "projector.0.bias": torch.zeros(hidden),
                "projector.1.weight": ours.norm.weight[rows],
                "projector.1.bias": ours.norm.bias[rows],
                "projector.1.running_mean": torch.zeros(hidden),
                "projector.1.running_var": torch.ones(hidden),
                "projector.1.num_batches_tracked": torch.tensor(0),
                "projector.3.weight": ours.out_weight[k],
                "projector.3.bias": ours.out_bias[k, 0],
                "prototypes.weight": ours.prototypes[k],
            }
        )


def test_the_same_weights_say_the_same() -> None:
    torch.manual_seed(0)
    ours = IIC(SmallEncoder(), TASK, CONFIG)
    theirs = Network(SmallEncoder(), TASK, 2, 3, 6, 4)
    theirs.encoder.load_state_dict(ours.encoder.state_dict())
    theirs.known.weight.data = ours.h.prototypes.data
    _copy(ours.g, theirs.novel)
    _copy(ours.o, theirs.over)
    for encoder in (ours.encoder, theirs.encoder):
        encoder.eval()  # ours normalises crops of one size together, theirs each by itself
    crops = torch.randn(4, 5, 3, 8, 8)
    batch = Batch((crops[:2], crops[2:]), torch.tensor([0, 1]), torch.arange(5))
    out = ours(batch, Clock(torch.zeros(())))
    for name, lists in zip(("logits", "over"), theirs(list(crops)), strict=True):
        joined = torch.stack([torch.stack(view) for view in lists])
        torch.testing.assert_close(joined, out[name], rtol=1e-4, atol=1e-5)


def test_prototypes_get_unit_length() -> None:
    network = Network(SmallEncoder(), TASK, 2, 3, 6, 4)
    network.normalise_prototypes()
    over = [weight for name, weight in network.over.named_parameters() if "prototypes" in name]
    assert len(over) == CONFIG.heads
    for weight in (network.known.weight, *over):
        torch.testing.assert_close(weight.norm(dim=1), torch.ones(len(weight)))
