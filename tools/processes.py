"""Record how far two processes are from one, for every method: `python -m tools.processes [cuda]`.

On one GPU the two share it, and exchange tensors through gloo instead of NCCL.
"""

import sys
from pathlib import Path

import torch

from newfound.core import dist
from newfound.core.files import write_json
from newfound.data.benchmarks import load_benchmark
from newfound.run.provenance import provenance
from tests.contract.test_processes import CASES, differences
from tests.tiny import SUBSET

RESULTS = Path(__file__).parents[1] / "results"


def main(device: str = "cpu") -> None:
    digits, rows = load_benchmark("digits", None, SUBSET), []
    with dist.processes(2):
        for name, stage, settings in CASES:
            weights, targets = differences(name, stage, settings, digits, torch.device(device))
            rows.append(
                {"method": name, "stage": stage, "settings": settings, "weights": weights, "targets": targets}
            )
        origin = provenance(torch.device(device)).model_dump(mode="json")
    what = "largest difference between two processes and one after three steps on 79 digits each"
    record = "processes.json" if device == "cpu" else f"processes-{device}.json"
    write_json(RESULTS / record, {"what": what, **origin, "cases": rows})


if __name__ == "__main__":
    main(*sys.argv[1:])
