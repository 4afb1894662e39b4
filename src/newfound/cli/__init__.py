"""The command line: each verb parses its options, calls one function below, and prints."""

import logging
import os
import sys
import warnings

from newfound.cli.signals import begin_imports, end_imports, ignore_interrupts

LAUNCHERS = {"RANK", "SLURM_STEP_NUM_TASKS"}
"""What torchrun and Slurm set in the environment."""


def main() -> None:
    """Run `newfound`; exit codes: 0, 1 for work that fails, 2 for bad usage, 130 for Ctrl-C."""
    place = os.environ.get("RANK") or os.environ.get("SLURM_PROCID", "0")
    begin_imports() if place == "0" else ignore_interrupts()  # Ctrl-C is for the process that is followed
    arguments = sys.argv[1:] or ["--help"]
    try:
        code = _run(arguments)
    except KeyboardInterrupt:
        print("Stopped by Ctrl-C.", file=sys.stderr)
        code = 130
    finally:
        end_imports()
    sys.exit(code)


def _run(arguments: list[str]) -> int | None:
    """Run a command; of several processes only the first does, and the others follow it."""
    from newfound.cli.app import run

    if not LAUNCHERS & os.environ.keys():
        return run(arguments)
    from newfound.core import dist

    if not dist.launched():
        return run(arguments)
    dist.join()
    try:
        return _follow() if dist.rank() else run(arguments)
    finally:
        dist.leave()


def _follow() -> int:
    """Train with the first process; its log and its errors are not repeated."""
    from newfound.core.dist import ProcessLostError
    from newfound.core.errors import NewfoundError
    from newfound.engine.trainer import follow

    logging.disable()
    warnings.simplefilter("ignore")
    try:
        follow()
    except NewfoundError as error:
        if not isinstance(error, ProcessLostError):
            print(f"error: {error.message}", file=sys.stderr)
            return error.exit_code
    return 0
