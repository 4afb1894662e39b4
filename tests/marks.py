"""What some tests need of the machine."""

import shutil

import pytest

NEEDS_COMPILER = pytest.mark.skipif(
    not any(shutil.which(name) for name in ("c++", "g++", "clang++")),
    reason="compiling on a CPU needs a C++ compiler (c++, g++ or clang++), and there is none here",
)
SLOW = pytest.mark.slow
"""Left out by `make check`."""
