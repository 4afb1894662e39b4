"""The frozen classifier stays what it was."""

import torch
from torch import nn

from newfound.nn.encoders.small import SmallEncoder
from newfound.nn.heads import FrozenClassifier, with_frozen_copy


def test_it_never_trains_and_its_statistics_never_move() -> None:
    encoder, head = SmallEncoder(), nn.Linear(128, 3)
    frozen = FrozenClassifier(encoder, head).train()
    before = {key: value.clone() for key, value in frozen.state_dict().items()}
    images = torch.rand(4, 3, 8, 8)
    assert torch.equal(frozen(images), head(encoder.eval()(images)))
    assert not any(p.requires_grad for p in frozen.parameters())
    assert all(torch.equal(value, before[key]) for key, value in frozen.state_dict().items())
    assert all(p.requires_grad for p in encoder.parameters())


def test_a_copy_is_made_of_the_classifier_only_and_only_once() -> None:
    weights = {"encoder.a": torch.tensor(1), "h.b": torch.tensor(2), "g.c": torch.tensor(3)}
    copied = with_frozen_copy(weights, "known")
    assert set(copied) == {*weights, "known.encoder.a", "known.h.b"}
    later = {**copied, "encoder.a": torch.tensor(9)}
    assert with_frozen_copy(later, "known")["known.encoder.a"] == 1
