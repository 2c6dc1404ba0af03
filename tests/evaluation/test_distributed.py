"""Two processes that share the graphs unevenly give, to the bit, what one process gives."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from gln.evaluation import BestThreshold, EdgeScores


def scores(graphs: slice) -> dict[str, float]:
    """Everything that the metrics say about these of seven graphs."""
    generator = torch.Generator().manual_seed(0)
    p = torch.rand(7, 6, 6, generator=generator)
    adj = torch.rand(7, 6, 6, generator=generator) < p
    mask = torch.arange(6) < torch.tensor([[6], [5], [4], [3], [2], [1], [6]])
    p, adj = (p + p.mT) / 2, adj & adj.mT
    out: dict[str, float] = {}
    for metric in (EdgeScores(), BestThreshold()):
        metric.update(p[graphs], adj[graphs], mask[graphs])
        out |= {f"{type(metric).__name__} {name}": float(value) for name, value in metric.compute().items()}
    return out


def work(rank: int, folder: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    answer = scores(slice(0, 2) if rank == 0 else slice(2, 7))
    torch.save(answer, f"{folder}/{rank}")
    dist.destroy_process_group()


def test_two_processes_equal_one(tmp_path: Path) -> None:
    start = "fork" if sys.platform == "linux" else "spawn"  # a fork need not import everything again
    mp.start_processes(work, args=(str(tmp_path),), nprocs=2, start_method=start)
    assert torch.load(tmp_path / "0") == torch.load(tmp_path / "1") == scores(slice(None))
