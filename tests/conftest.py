"""What several tests share."""

import signal

import pytest
import torch

from newfound.data.benchmarks import load_benchmark
from newfound.data.images import Dataset
from tests.tiny import SUBSET

# Small tensors: more threads only wait for each other.
torch.set_num_threads(1)
# A shell starts jobs in the background with Ctrl-C ignored, and so would be what tests start and stop.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def digits() -> Dataset:
    """A few digits of each class."""
    return load_benchmark("digits", None, SUBSET)
