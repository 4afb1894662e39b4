"""The learning rate of each epoch."""

import math

from newfound.core.config import TrainConfig


def learning_rate(epoch: int, train: TrainConfig) -> float:
    """Linear warm-up that reaches `lr` in its last epoch, then falls or a cosine towards `min_lr`."""
    if epoch < train.warmup:
        return train.min_lr + (train.lr - train.min_lr) * epoch / max(train.warmup - 1, 1)
    if train.lr_falls:
        falls = [float(share) * train.epochs for share in train.lr_falls.split(",")]
        return train.lr * train.lr_factor ** sum(epoch >= round(fall) for fall in falls)
    progress = (epoch - train.warmup) / max(train.epochs - train.warmup, 1)
    return train.min_lr + (train.lr - train.min_lr) * (1 + math.cos(math.pi * progress)) / 2
