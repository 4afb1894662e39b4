"""What several tests share."""

import pytest
import torch

from newfound.data.benchmarks import load_benchmark
from newfound.data.images import Dataset
from tests.tiny import SUBSET

# Small tensors: more threads only wait for each other.
torch.set_num_threads(1)


@pytest.fixture(scope="session")
def digits() -> Dataset:
    """A few digits of each class."""
    return load_benchmark("digits", None, SUBSET)
