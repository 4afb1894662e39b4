"""Speed and memory of newfound on this machine, against straightforward implementations of the same work.

`python -m benchmarks` measures, `make bench` does so in the project's environment. Not part of the wheel.
"""
