"""Record how far the results of two processes are from those of one: `python -m tools.processes [cuda]`.

Every method is tried. Two processes share a single GPU and exchange tensors through gloo instead of NCCL. The
run that is killed and resumed is on the CPU.
"""

import os
import signal
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from newfound.core import dist
from newfound.core.files import write_json
from newfound.run.folder import Folder
from newfound.run.pile import Pile
from newfound.run.provenance import provenance
from tests.contract.test_processes import CASES, differences
from tests.run.test_processes import COMMAND, TORCHRUN, begun, children, finished

RESULTS = Path(__file__).parents[1] / "results"


def resumed(place: Path) -> dict[str, object]:
    """Compare a run killed with two processes and resumed with one to a run that was never stopped."""
    command, whole, stopped = [*COMMAND, "epochs=12"], place / "whole" / "run", place / "stopped" / "run"
    expected = finished(command, whole)
    killed = begun([*TORCHRUN, *command], stopped)
    for process in children(killed.pid):
        os.kill(process, signal.SIGKILL)
    killed.communicate(timeout=60)
    found = finished([*command, "--resume"], stopped)
    one, two = (Pile.read(Folder(path).pile).novel for path in (whole, stopped))
    *_, before, after = Folder(stopped).read_results().sessions
    assert before.stage == after.stage == "discover"
    return {
        "what": "largest difference between a run killed and resumed and one never stopped",
        "command": " ".join(["python", *command]),
        "killed": before.hardware,
        "resumed": after.hardware,
        "from_epoch": after.epoch,
        "weights": max((value - found[key]).abs().max().item() for key, value in expected.items()),
        "probabilities": float(np.abs(one - two).max()),
        "images": len(one),
        "classes_differ": int((one.argmax(1) != two.argmax(1)).sum()),
    }


def main(device: str = "cpu") -> None:
    rows = []
    with dist.processes(2):
        for name, stage, settings in CASES:
            weights, targets = differences(name, stage, settings, torch.device(device))
            rows.append(
                {"method": name, "stage": stage, "settings": settings, "weights": weights, "targets": targets}
            )
        origin = provenance(torch.device(device)).model_dump(mode="json")
    what = "largest difference between two processes and one after an epoch of batches of 39 digits"
    record = "processes.json" if device == "cpu" else f"processes-{device}.json"
    with TemporaryDirectory() as place:
        again = resumed(Path(place))
    write_json(RESULTS / record, {"what": what, **origin, "cases": rows, "resumed": again})


if __name__ == "__main__":
    main(*sys.argv[1:])
