"""What several tests share."""

import logging
import signal
import sys
from collections.abc import Iterator

import pytest
import torch

from newfound.data.benchmarks import load_benchmark
from newfound.data.dataset import Dataset
from tests.tiny import SUBSET

# Small tensors: more threads only wait for each other.
torch.set_num_threads(1)
# A shell starts jobs in the background with Ctrl-C ignored, and so would be what tests start and stop.
signal.signal(signal.SIGINT, signal.default_int_handler)
# It limits what a process may use as only POSIX can.
collect_ignore = ["tools/test_hostile.py"] if sys.platform == "win32" else []


@pytest.fixture(scope="session")
def digits() -> Dataset:
    """A few digits of each class."""
    return load_benchmark("digits", None, SUBSET)


@pytest.fixture(autouse=True)
def _quiet_logger() -> Iterator[None]:
    """A command attaches its console to the logger for good; the next test starts without it."""
    logger = logging.getLogger("newfound")
    yield
    logger.handlers.clear()
    logger.setLevel(logging.NOTSET)
