"""Whole graphs over given nodes, where the data leave a choice: a flow, beside a GLN that scores every pair alone.

    python recipes/given_nodes.py train surfaces flow --run runs/grid-flow --minutes 8
    python recipes/given_nodes.py train surfaces gln --run runs/grid-gln --minutes 3
    python recipes/given_nodes.py test surfaces --flow runs/grid-flow --gln runs/grid-gln -o results/flows/grid.json

``surfaces`` are plain grids, on which many cells have two equal diagonals: a graph has one of them, at
random, and of others the shorter.
``communities`` have two links between them, anywhere. Repeat ``train`` to go on, as :mod:`timed` says.
"""

from __future__ import annotations

import argparse
import math
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import gln
from gln.evaluation.edges import wilsons
from gln.families import parse_family
from gln.families.surfaces import EQUAL, KINDS, grid
from gln.graphs.record import Graph
from gln.seeds import TEST_SEED
from gln.storage.provenance import check_source, write_result
from gln.training.losses import usual_loss
from timed import add_training_flags, fit_for, settings_in

EPOCH, VAL = 6400, 64  # graphs
SAMPLING_STEPS = 100
FAMILIES = {"surfaces": "surfaces:points={points},jitter=false,shear=false", "communities": "community"}
POINTS = {"surfaces": 100, "communities": 40}


def one_diagonal_in_every_cell(truth: Graph, made: Graph) -> bool:
    """Whether the graph is a triangulated grid: all sides, and in every cell the shorter diagonal or an equal one."""
    side = math.isqrt(truth.num_nodes)
    sides, cells = grid(KINDS[int(truth.kind)], side)
    place = truth.perm.numpy()[made.edge_index.numpy()]  # [2, m], in the order of the grid
    joined = np.zeros((truth.num_nodes, truth.num_nodes), dtype=bool)
    joined[place[0], place[1]] = True
    falling, rising = joined[cells[:, 0], cells[:, 3]], joined[cells[:, 1], cells[:, 2]]
    count = 2 * (len(sides) + len(cells))
    assert truth.pos is not None
    corner = truth.pos.double().numpy()[np.argsort(truth.perm.numpy())][cells]  # [c, 4, 3]
    one, other = (((corner[:, a] - corner[:, b]) ** 2).sum(-1) for a, b in ((0, 3), (1, 2)))
    shorter = np.where(falling, one - other, other - one) <= EQUAL * (one + other)
    return bool(
        (falling ^ rising).all()
        and shorter.all()
        and joined[sides[:, 0], sides[:, 1]].all()
        and joined.sum() == count
    )


def cliques_with_their_links(truth: Graph, made: Graph) -> bool:
    """Whether the graph has what all of the family have: the same edges within communities, and as many between."""
    inside = [
        {
            pair
            for pair in map(tuple, graph.edges_once().tolist())
            if truth.community[pair[0]] == truth.community[pair[1]]
        }
        for graph in (truth, made)
    ]
    return inside[0] == inside[1] and len(made.edges_once()) == len(truth.edges_once())


FITS: dict[str, Callable[[Graph, Graph], bool]] = {
    "surfaces": one_diagonal_in_every_cell,
    "communities": cliques_with_their_links,
}


def family_of(name: str, points: int | None) -> Any:
    return parse_family(FAMILIES[name].format(points=points or POINTS[name]))


def train(given: argparse.Namespace) -> None:
    family = family_of(given.name, given.points)
    model: nn.Module
    torch.manual_seed(0)
    settings = {"pos_channels": family.graphs(1)[0].pos.shape[1]} | settings_in(given.set)
    if given.model == "flow":
        model = gln.GraphFlow(late=True, sampling_steps=SAMPLING_STEPS, evenly=True, **settings)
        loss = usual_loss(model)
    else:
        model = gln.GLN(**{"steps": 6} | settings)
        loss = usual_loss(model, edge="plain", psi1=5)
    fit_for(given, model, gln.Fresh(family, given.epoch, seed=1), family.graphs(VAL, 2), loss)


def test(given: argparse.Namespace) -> None:
    check_source(given.output)
    family, fits = family_of(given.name, given.points), FITS[given.name]
    truths = family.graphs(given.count, TEST_SEED)
    rows = {}
    for name, run in (("flow", given.flow), ("gln", given.gln)):
        model = gln.load(run).to(given.device)
        nodes = [Graph(graph.num_nodes, pos=graph.pos) for graph in truths]
        made = model.sampled(1, 0, nodes) if name == "flow" else gln.predict(model, nodes)
        made = [
            graph if isinstance(graph, Graph) else Graph(graph.num_nodes, edge_index=graph.edge_index)
            for graph in made
        ]
        whole = float(np.mean([fits(truth, graph) for truth, graph in zip(truths, made, strict=True)]))
        iou = float(gln.edge_scores(truths, made)["iou"])
        rows[name] = {
            "whole": whole,
            "interval": wilsons(whole, len(made)),
            "iou": iou,
            "config": model.config,
        }
        print(f"{name}: whole {whole:.4f}, IoU {iou:.4f}", flush=True)
    facts = {"family": repr(family), "count": given.count, **rows}
    write_result(given.output, shlex.join(["python", *sys.argv]), TEST_SEED, facts)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    actions = parser.add_subparsers(dest="action", required=True)
    training, testing = actions.add_parser("train"), actions.add_parser("test")
    for some in (training, testing):
        some.add_argument("name", choices=[*FAMILIES])
        some.add_argument("--points", type=int, help="of every surface")
    training.add_argument("model", choices=["flow", "gln"])
    training.add_argument("--epoch", type=int, default=EPOCH, help="graphs")
    add_training_flags(training, lr=1e-3, batch_size=16)
    testing.add_argument("--flow", type=Path, required=True)
    testing.add_argument("--gln", type=Path, required=True)
    testing.add_argument("--count", type=int, default=300)
    testing.add_argument("--output", "-o", type=Path, required=True)
    testing.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    given = parser.parse_args()
    train(given) if given.action == "train" else test(given)


if __name__ == "__main__":
    main()
