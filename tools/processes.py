"""Record how far two processes are from one, for every method: `python -m tools.processes`."""

from pathlib import Path

import torch

from newfound.core import dist
from newfound.core.files import write_json
from newfound.data.benchmarks import load_benchmark
from newfound.run.provenance import provenance
from tests.contract.test_processes import CASES, differences
from tests.tiny import SUBSET

RECORD = Path(__file__).parents[1] / "results" / "processes.json"


def main() -> None:
    digits, rows = load_benchmark("digits", None, SUBSET), []
    with dist.processes(2):
        for name, stage, settings in CASES:
            weights, targets = differences(name, stage, settings, digits)
            rows.append(
                {"method": name, "stage": stage, "settings": settings, "weights": weights, "targets": targets}
            )
        origin = provenance(torch.device("cpu")).model_dump(mode="json")
    what = "largest difference between two processes and one after three steps on 79 digits each"
    write_json(RECORD, {"what": what, **origin, "cases": rows})


if __name__ == "__main__":
    main()
