"""Speed and memory of newfound on this machine, against straightforward implementations of the same work.

Run `python -m benchmarks`, or `make bench` in the project's environment. Not part of the wheel.
"""
