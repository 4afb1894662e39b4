"""How processes find each other and divide a batch; tests/contract/test_processes.py trains with two."""

import os
from pathlib import Path
from unittest.mock import patch

import pytest
import torch

from newfound.core import dist

SLURM = {
    "SLURM_PROCID": "5",
    "SLURM_LOCALID": "1",
    "SLURM_STEP_NUM_TASKS": "8",
    "SLURM_STEP_NODELIST": "gpu[03-04]",
    "SLURM_JOB_ID": "1234567",
}


@pytest.mark.parametrize(
    ("nodes", "first"),
    [("gpu[03-04]", "gpu03"), ("node1,node2", "node1"), ("a-b[7,9-11],c1", "a-b7"), ("alone", "alone")],
)
def test_slurm_says_where_the_processes_are(nodes: str, first: str) -> None:
    with patch.dict(os.environ, SLURM | {"SLURM_STEP_NODELIST": nodes}, clear=True):
        assert dist.launched()
        found = [
            os.environ[key] for key in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
        ]
    assert found == ["5", "1", "8", first, "34567"]


def test_what_the_user_says_precedes_slurm() -> None:
    with patch.dict(os.environ, SLURM | {"MASTER_ADDR": "here"}, clear=True):
        assert dist.launched()
        assert os.environ["MASTER_ADDR"] == "here"


@pytest.mark.parametrize(
    "environment",
    [{}, {"RANK": "0", "WORLD_SIZE": "1"}, {"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}],
    ids=["none", "torchrun with one", "a batch script of Slurm without srun"],
)
def test_one_process_is_not_launched(environment: dict[str, str]) -> None:
    with patch.dict(os.environ, environment, clear=True):
        assert not dist.launched()


@pytest.mark.parametrize(("world", "labelled", "unlabelled"), [(2, 5, 8), (3, 0, 7), (4, 2, 9)])
def test_every_row_of_a_batch_has_one_process(world: int, labelled: int, unlabelled: int) -> None:
    rows = torch.arange(labelled + unlabelled)
    seen, kinds = list[int](), list[int]()
    for rank in range(world):
        with (
            patch.object(dist, "world", lambda: world),
            patch.object(dist, "rank", lambda rank=rank: rank),
            dist.sharing(labelled, unlabelled),
        ):
            own = dist.share(rows).tolist()
            kinds.append(dist.count(labelled))
        assert own == sorted(own)
        assert kinds[-1] == sum(row < labelled for row in own)
        seen += own
    assert sorted(seen) == rows.tolist()
    assert max(kinds) - min(kinds) <= 1


def test_one_process_has_everything() -> None:
    rows = torch.rand(5, 2)
    with dist.sharing(2, 3):
        assert dist.share(rows) is rows
        assert dist.gather(rows) is rows
        assert dist.count(2) == 2
        assert not dist.is_sharing()
    assert (dist.rank(), dist.world()) == (0, 1)


@pytest.mark.parametrize(
    ("environment", "processes", "unbound", "bound"),
    [
        ({}, 1, 32, 8),
        ({"LOCAL_WORLD_SIZE": "4"}, 4, 8, 2),
        ({"SLURM_STEP_NUM_TASKS": "8", "SLURM_STEP_NUM_NODES": "2", "SLURM_CPUS_ON_NODE": "32"}, 4, 8, 8),
        ({"SLURM_STEP_NUM_TASKS": "7", "SLURM_STEP_NUM_NODES": "2", "SLURM_CPUS_ON_NODE": "16"}, 4, 4, 4),
        ({"SLURM_STEP_NUM_TASKS": "99", "SLURM_STEP_NUM_NODES": "1", "SLURM_CPUS_ON_NODE": "32"}, 99, 1, 1),
    ],
    ids=["one process", "torchrun", "Slurm", "Slurm, cores elsewhere", "more processes than cores"],
)
def test_processes_of_one_machine_divide_its_cores_and_memory(
    environment: dict[str, str], processes: int, unbound: int, bound: int, tmp_path: Path
) -> None:
    """Slurm may have bound a process to its own cores, here 8 of 32."""
    group = (tmp_path / "group").as_uri()
    dist.join({"LOCAL_RANK": "0", **environment}, init_method=group, rank=0, world_size=1)
    try:
        assert (dist.own_cores(32), dist.own_cores(8)) == (unbound, bound)
        with patch.object(dist, "world", lambda: 100), dist.expecting(16):
            assert dist.on_this_machine() == processes
    finally:
        dist.leave()
    assert dist.own_cores(32) == 32
    with dist.expecting(4):
        with dist.expecting(2):
            assert dist.on_this_machine() == 2
        assert (dist.on_this_machine(), dist.own_cores(32)) == (4, 32)
    assert dist.on_this_machine() == 1
