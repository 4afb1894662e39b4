"""One training step: autocast, eager, a gradient scaler, plain SGD."""

import torch
from torch import Tensor

from newfound.bench.baseline.losses import Weights, iic_loss
from newfound.bench.baseline.network import Network
from newfound.core.config import TrainConfig
from newfound.methods.iic import IIC


def loss_weights(config: IIC.Config, num_known: int) -> Weights:
    """What the loops need of IIC's settings."""
    return Weights(num_known, config.large_crops, config.alpha, config.beta, config.tau, config.sinkhorn_eps)


def usual_precision(device: torch.device) -> torch.dtype:
    """fp16 on a GPU, as the published codes; float32 on a CPU."""
    return torch.float16 if device.type == "cuda" else torch.float32


class TrainingStep:
    """In the usual precision of the device."""

    def __init__(self, network: Network, weights: Weights, train: TrainConfig, device: torch.device) -> None:
        self.network, self.weights, self.device = network, weights, device
        self.half = usual_precision(device) == torch.float16
        self.scaler = torch.amp.GradScaler(device.type, enabled=self.half)
        self.optimiser = torch.optim.SGD(
            network.parameters(), train.min_lr, train.momentum, weight_decay=train.weight_decay
        )

    def __call__(self, crops: list[Tensor], labels: Tensor) -> None:
        self.backward(self.forward(crops, labels))
        self.update()

    def forward(self, crops: list[Tensor], labels: Tensor) -> Tensor:
        """The loss of a batch, copied to the device first."""
        crops = [crop.to(self.device, non_blocking=True) for crop in crops]
        labels = labels.to(self.device, non_blocking=True)
        self.network.normalise_prototypes()
        with torch.autocast(self.device.type, torch.float16, enabled=self.half):
            logits, over = self.network(crops)
            return iic_loss(logits, over, labels, self.weights)

    def backward(self, loss: Tensor) -> None:
        self.optimiser.zero_grad()
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]

    def update(self) -> None:
        self.scaler.step(self.optimiser)
        self.scaler.update()
