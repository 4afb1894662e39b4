"""The parts and sizes of a call, and the random images it measures with."""

import torch

from benchmarks.setup import PARTS, benchmark_shape, checked_setup, noise_split, noise_truth


def test_the_default_parts() -> None:
    assert checked_setup("iic", "cifar100-50", {}).parts == PARTS
    assert checked_setup("uno-v2", "cifar10", {}).parts == ("step", "inter", "evaluation", "kmeans")
    assert checked_setup("iic", "digits", {}).parts == ("step", "inter", "evaluation", "kmeans")
    assert checked_setup("iic", "cifar10", {"device": "cpu"}).modes == ("eager",)


def test_the_step_is_smaller_than_the_terms_on_a_cpu() -> None:
    setup = checked_setup("iic", "cifar10", {"device": "cpu"})
    assert setup.recipe.train["discover"].batch_size == 512
    assert setup.step_recipe.train["discover"].batch_size == setup.scale.step["batch_size"]
    assert setup.step_recipe.run.encoder == "small"
    given = checked_setup("iic", "cifar10", {"device": "cpu", "batch_size": "64"})
    assert given.step_recipe.train["discover"].batch_size == 64


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
