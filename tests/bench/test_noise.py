"""Random images stand in for a benchmark's."""

import torch

from newfound.bench.noise import benchmark_shape, noise_split, noise_truth


def test_noise_has_the_shape_of_the_benchmark() -> None:
    task, look = benchmark_shape("cifar100-20")
    split = noise_split(task, look, 160, 40, torch.device("cpu"))
    assert (task.num_known, task.num_novel, look.kind) == (80, 20, "cifar")
    assert (len(split.labelled), len(split.unlabelled)) == (160, 40)
    pixels = split.labelled.take(torch.arange(160))
    assert pixels.shape == (160, 3, 32, 32)
    assert pixels.dtype == torch.uint8
    assert abs(pixels.float().mean().item() - 127.5) < 1
    assert split.labels.bincount().tolist() == [2] * 80
    truth = noise_truth(split, 200, torch.device("cpu"))
    assert truth.labels.min() == 80
    assert len(truth.labels) == 40
    assert truth.test_labels.bincount().tolist() == [2] * 100
    assert not torch.equal(truth.test.take(torch.arange(40)), split.unlabelled.take(torch.arange(40)))
