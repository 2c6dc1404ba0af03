"""GLN learns families it was not designed for, through the public API, in seconds on a CPU."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import gln
from gln.training.data import RandomRotation

NODES = 6


def relative_neighbours(rng: np.random.Generator) -> Data:
    """Joined unless a third point is nearer to both than they are to each other."""
    pos = rng.random((NODES, 2)).astype(np.float32)
    distance = np.linalg.norm(pos[:, None] - pos[None], axis=-1)
    blocked = np.maximum(distance[:, None], distance[None]).min(axis=-1) < distance  # max(d_ik, d_jk) < d_ij
    return gln.as_graph(~blocked & ~np.eye(NODES, dtype=bool), pos=pos)


def weighted_reach(rng: np.random.Generator) -> Data:
    """Joined where the distance times the product of both features is small, in units of the set's own size."""
    pos, x = rng.random((NODES, 2)).astype(np.float32), rng.uniform(0.3, 2, (NODES, 1)).astype(np.float32)
    distance = np.linalg.norm(pos[:, None] - pos[None], axis=-1)
    scale = np.sqrt(((pos - pos.mean(0)) ** 2).sum(1).mean())
    return gln.as_graph((distance * (x * x.T) < scale) & ~np.eye(NODES, dtype=bool), pos=pos, x=x)


@pytest.mark.parametrize("make", [relative_neighbours, weighted_reach])
def test_a_family_it_was_not_designed_for(make: Callable[[np.random.Generator], Data]) -> None:
    rng = np.random.default_rng(0)
    train, val, test = ([make(rng) for _ in range(count)] for count in (500, 60, 100))
    torch.manual_seed(0)
    width = 0 if train[0].get("x") is None else 1
    model = gln.GLN(in_channels=width, pos_channels=2, width=24, pair_width=24, steps=2)
    settings = {"epochs": 6, "batch_size": 16, "lr": 6e-3, "accelerator": "cpu", "progress": False}
    gln.fit(
        model,
        train,
        val,
        loss=gln.Loss(edge="plain", psi1=5, every_step=True),
        augment=RandomRotation(),
        **settings,
    )
    scores = gln.evaluate(model, test)
    assert scores["dice"] > 0.95
