"""The smallest model and loss that learn something, and graphs for them: fast enough to train many times."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from gln.graphs import GraphBatch, make_graph
from gln.models import StructureOutput


class Tiny(nn.Module):
    """Scores a pair by the distance of its ends after one layer; dropout, so that hidden random state would show."""

    def __init__(self, channels: int = 2, width: int = 8, dropout: float = 0.1) -> None:
        super().__init__()
        self.config: dict[str, Any] = {"channels": channels, "width": width, "dropout": dropout}
        self.threshold = 0.5
        self.layer = nn.Sequential(nn.Linear(channels, width), nn.Tanh(), nn.Dropout(dropout))
        self.scale = nn.Parameter(torch.tensor([1.0, -1.0]))

    def forward(
        self, batch: GraphBatch, initial: Tensor | None = None, steps: int | None = None
    ) -> StructureOutput:
        h = self.layer(batch.features)  # [B, N, d]
        distance = (h[:, :, None] - h[:, None, :]).square().sum(-1)  # [B, N, N]
        logits = self.scale[0] + self.scale[1] * distance
        if initial is not None:
            logits = logits + 20 * initial
        return StructureOutput((logits,), (h,), batch.pair_mask)


@dataclass(frozen=True)
class TinyLoss:
    """Mean cross-entropy over the pairs of a graph."""

    factor: float = 1.0

    def __call__(self, output: StructureOutput, batch: GraphBatch, model: nn.Module) -> Tensor:
        each = nn.functional.binary_cross_entropy_with_logits(
            output.logits[-1], output.target(batch.adj).float(), reduction="none"
        )
        each = each * output.mask
        return self.factor * each.sum((1, 2)) / output.mask.sum((1, 2)).clamp(min=1)  # [B]


def graphs(count: int, seed: int = 0, sizes: tuple[int, int] = (4, 9)) -> list[Data]:
    """Random points, joined where they are close."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        points = rng.normal(size=(int(rng.integers(*sizes)), 2))
        near = np.linalg.norm(points[:, None] - points[None], axis=-1) < 1
        made.append(make_graph(points, edges=np.argwhere(np.triu(near, 1))))
    return made


def tiny(seed: int = 0, **config: Any) -> Tiny:
    """A model whose first weights are a function of ``seed``."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Tiny(**config)


@dataclass(frozen=True)
class Payload:
    """Creates a file when it is unpickled."""

    path: Path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@dataclass(frozen=True)
class BrokenLoss(TinyLoss):
    """Not a number in every process but the first."""

    def __call__(self, output: StructureOutput, batch: GraphBatch, model: nn.Module) -> Tensor:
        losses = super().__call__(output, batch, model)
        return losses * float("nan") if os.environ.get("LOCAL_RANK", "0") != "0" else losses


@dataclass(frozen=True)
class WatchedLoss(TinyLoss):
    """Notes the weights that every process sees at every call; once, the second process is killed at call ``dies``."""

    folder: Path = Path()
    dies: int | None = None

    def __call__(self, output: StructureOutput, batch: GraphBatch, model: nn.Module) -> Tensor:
        rank = os.environ.get("LOCAL_RANK", "0")
        seen = torch.cat([weight.detach().flatten() for weight in model.parameters()]).numpy().tobytes().hex()
        with (self.folder / f"seen-{rank}").open("a") as file:
            file.write(f"{seen}\n")
        calls = len((self.folder / f"seen-{rank}").read_text().splitlines())
        if rank == "1" and calls == self.dies and not (self.folder / "killed").exists():
            (self.folder / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(output, batch, model)
