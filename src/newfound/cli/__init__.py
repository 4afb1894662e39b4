"""The command line: each verb parses its options, calls the library, and prints."""

import logging
import os
import sys
import warnings

from newfound.cli.signals import begin_imports, end_imports, ignore_signals

LAUNCHERS = {"RANK", "SLURM_STEP_NUM_TASKS"}
"""Environment variables that torchrun and Slurm set."""
ALONE = ("embed", "predict")
"""Verbs for large sets that several processes would not make faster."""


def main() -> None:
    """Run `newfound`. Exit codes: 0, 1 if the work fails, 2 for wrong usage, 130 for Ctrl-C."""
    rank = os.environ.get("RANK") or os.environ.get("SLURM_PROCID", "0")
    begin_imports() if rank == "0" else ignore_signals()  # the first process handles them
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
    """Run a command. With several processes the first one runs it, and the others follow."""
    from newfound.core.files import cores

    if cores() < (os.cpu_count() or 1):  # torch sees all cores, and threads without one wait for each other
        os.environ.setdefault("OMP_NUM_THREADS", str(cores()))
    from newfound.cli.app import run

    if not LAUNCHERS & os.environ.keys():
        return run(arguments)
    from newfound.core import dist

    if not dist.launched():
        return run(arguments)
    dist.join()
    try:
        if dist.rank():
            return _follow()
        if arguments[0] in ALONE:
            print(f"warning: {arguments[0]} uses one of {dist.world()} processes; --engine ray uses several.")
        return run(arguments)
    finally:
        dist.leave()


def _follow() -> int:
    """Train with the first process, without repeating its log and its errors."""
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
