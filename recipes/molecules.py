"""Train and test the model that tells bonds, orders and charges from elements and positions.

    python recipes/molecules.py train --data CONFORMERS... --run runs/molecules --minutes 25
    python recipes/molecules.py test --data CONFORMERS... --run runs/molecules
    python recipes/molecules.py calibrate --data CONFORMERS... --run runs/molecules

``CONFORMERS`` are files of ``recipes/molecule_conformers.py``, or folders of them, which may fill up meanwhile. The
rate of learning falls with the time that is left, so that training ends when the minutes are over. ``test`` prints the
share of molecules of which every bond, charge and number of hydrogens is right as the most probable one. To train in
several short calls on a machine without rdkit, use ``recipes/molecule_calls.py``.
"""

from __future__ import annotations

import argparse
import os
import signal
import threading
import time
from importlib.util import find_spec
from pathlib import Path
from types import MethodType
from typing import Any

import numpy as np
import torch
from torch import Tensor

import gln
from gln.graphs import GraphBatch
from gln.graphs.record import Graph
from gln.models.candidates import candidate_pairs
from gln.models.pairs import ListedPairs
from gln.storage.models import annotate, load_weights
from gln.storage.runs import read_checkpoint
from gln.training.config import FitConfig
from gln.training.losses import Loss
from gln.training.processes import Interrupted
from gln.training.progress import resumed
from recipes.molecule_graphs import EPOCH, LARGEST, SHARES, Epochs, Molecules, load, smiles_in
from recipes.molecule_labels import ELEMENTS, NODE_TYPES
from recipes.timed import settings_in

SITUATIONS = {  # that are tried: the share of hydrogens that are there, and noise in ångström
    "all atoms": (1, 0.0),
    "heavy atoms": (0, 0.0),
    "noise .05": (1, 0.05),
    "noise .1": (1, 0.1),
    "heavy, noise .05": (0, 0.05),
}
BATCH = 256
ASKED = 0.1  # share of drugs with charged atoms
MODEL: dict[str, Any] = {
    "in_channels": len(ELEMENTS),
    "pos_channels": 3,
    "width": 128,
    "pair_width": 32,
    "steps": 4,
    "candidates": 10,  # all bonds, and all atoms that are bonded to the same one, but for one in 200
    "sparse": True,  # candidates alone: scored over all pairs, a molecule takes eight times as long
    "edge_types": 4,
    "node_types": NODE_TYPES,
    "lengths": "fine",
    "directions": False,
}
FIT: dict[str, Any] = {
    "batch_size": BATCH,
    "warmup": 0.02,
    "weight_decay": 1e-3,
    "average": 0.999,
    "keep_last": True,
    "progress": False,
}
LOSS = Loss(edge="plain", structure="none", psi1=2, psi3=2, psi5=2, every_step=True)


def listed_pairs(model: gln.GLN, batch: GraphBatch) -> dict[str, Tensor]:
    """What a step of training scores: always as many candidates, so that few lengths of lists occur."""
    assert batch.pos is not None
    pairs = candidate_pairs(batch.pos, batch.mask, model.candidates, listed=True)
    assert isinstance(pairs, ListedPairs)
    return pairs.padded().as_tensors()


class Timed(FitConfig):
    """The rate of learning falls to 0 as time passes, not epochs; a call has ``first`` to ``last`` of all the time."""

    first, last, begun, seconds = 0.0, 1.0, 0.0, 1.0
    slowed = 1.0  # where training diverged, it goes on at less

    def lr_at(self, epoch: int, batch: int, batches: int) -> float:
        passed = min((time.monotonic() - Timed.begun) / Timed.seconds, 1.0)
        now = Timed.first + (Timed.last - Timed.first) * passed
        if now < self.warmup:
            return Timed.slowed * self.lr * max(now, 1e-3) / self.warmup
        return Timed.slowed * self.lr * float(0.5 * (1 + np.cos(np.pi * now)))


def train(given: argparse.Namespace) -> None:
    """Train for so many minutes; again to go on."""
    Timed.begun, Timed.seconds = time.monotonic(), 60 * given.minutes
    Timed.first, Timed.last = (given.call - 1) / given.calls, given.call / given.calls
    torch.set_float32_matmul_precision("high")
    epochs = Epochs(given.data, given.epoch)
    held = load(given.held_out or given.data)
    torch.manual_seed(0)
    model = gln.GLN(**MODEL | settings_in(given.set))
    model.draw = MethodType(listed_pairs, model)  # type: ignore[method-assign]
    weights = sum(weight.numel() for weight in model.parameters())
    print(f"{weights:,} weights", flush=True)
    timer = threading.Timer(60 * given.minutes, os.kill, (os.getpid(), signal.SIGTERM))
    timer.daemon = True
    timer.start()
    config = Timed(
        epochs=100_000, lr=given.lr, accelerator=given.device, **FIT | {"batch_size": given.batch_size}
    )
    try:
        val = validation(held, given.val)
        gln.fit(model, epochs, val, run=given.run, resume=True, loss=LOSS, config=config)
    except Interrupted:
        path = given.run / "metrics.csv"
        rows = path.read_text().splitlines() if path.exists() else ["in the first epoch"]
        print("\n".join([*rows[:1], *rows[1:-1:20], *rows[1:][-1:]]), flush=True)
        print(f"{epochs.conformers} conformers", flush=True)
        keep_newest(model, given.run)
    finally:
        timer.cancel()
        epochs.close()


def keep_newest(model: gln.GLN, run: Path) -> None:
    """Save the averaged weights as they are in the middle of an epoch; ``gln.fit`` keeps those of the last whole one.

    Otherwise up to an epoch would be lost, and it is the last steps, at the lowest rates, that count.
    """
    path = run / "checkpoint.safetensors"
    found = read_checkpoint(path)
    load_weights(model, found.weights | found.average, path)
    at = resumed(found.progress, path)
    annotate(model, at.threshold, at.facts(seed=0))
    gln.save(model, run)


def validation(data: Molecules, count: int) -> list[Graph]:
    """Molecules that are held out, in all situations; always the same."""
    some, rng = np.flatnonzero(data.held_out == 1)[:count], np.random.default_rng(1)
    situation = rng.choice(5, len(some), p=list(SHARES.values()))
    kept = np.where((situation == 0) | (situation == 2), 1.0, (situation == 4) * 0.5)
    graphs = data.graphs(some, kept, 0.07 * ((situation == 2) | (situation == 3)), rng)
    return [graph for graph in graphs if 1 < graph.num_nodes <= LARGEST and graph.num_edges]


def loaded(given: argparse.Namespace) -> Any:
    model: Any = gln.load(given.run)
    return model.to(given.device)


def test(given: argparse.Namespace) -> None:
    """A table of the share of molecules that are exactly right."""
    model = loaded(given).eval()
    data = load(given.held_out or given.data)
    held = np.flatnonzero(data.held_out == 1)
    charged = data.charged
    print(
        "situation            molecules  exact  charged exact  bonds right  atoms right  sure  of which right"
    )
    for name, (kept, noise) in SITUATIONS.items():
        rng = np.random.default_rng(2)
        graphs = data.graphs(held, np.full(len(held), kept), np.full(len(held), noise), rng)
        fit = [number for number, graph in enumerate(graphs) if graph.num_nodes > 1]
        rows = judged(model, [graphs[number] for number in fit], given.batch_size)
        is_charged = charged[held[fit]]
        made = data.how[held[fit]] == 1
        sure = rows[:, 5] > 0.99
        print(
            f"{name:20} {len(rows):9} {rows[:, 0].mean():6.4f} {rows[is_charged, 0].mean():14.4f} "
            f"{rows[:, 2].sum() / rows[:, 1].sum():12.5f} {rows[:, 4].sum() / rows[:, 3].sum():12.5f} "
            f"{sure.mean():5.3f} {rows[sure, 0].mean():15.4f}   relaxed by MMFF: {rows[made, 0].mean():.4f}",
            flush=True,
        )


def calibrate(given: argparse.Namespace) -> None:
    """Learn from molecules that are held out how sure the model may be, and save it with the model."""
    from recipes.molecule_confidence import fit_confidence

    model = loaded(given)
    paths, rng = given.held_out or given.data, np.random.default_rng(3)
    data, words = load(paths), smiles_in(paths)
    held = np.flatnonzero(data.held_out == 1)
    # As many with charges as are asked about: with more, which are harder, all others look less sure than they are.
    charged = data.charged[held]
    most = ASKED / (1 - ASKED) * (~charged).sum() / max(1, charged.sum())
    held = held[~charged | (rng.random(len(held)) < most)]
    graphs: list[Graph] = []
    smiles: list[str] = []
    for kept, noise in SITUATIONS.values():
        some = data.graphs(held, np.full(len(held), kept), np.full(len(held), noise), rng)
        fit = [number for number, graph in enumerate(some) if graph.num_nodes > 1]
        graphs += [some[number] for number in fit]
        smiles += [words[held[number]] for number in fit]
    known = find_spec("rdkit") is not None
    found = fit_confidence(model, graphs, smiles=smiles if known else None)
    print(f"{len(graphs)} graphs, {'' if known else 'not '}judged by rdkit: {found}", flush=True)
    gln.save(model, given.run)


@torch.no_grad()
def judged(model: Any, graphs: list[Graph], batch_size: int) -> np.ndarray:
    """Of every graph: all right, edges, right edges, nodes, right nodes, and the probability of the answer."""
    rows = np.zeros((len(graphs), 6))
    order = np.argsort([graph.num_nodes for graph in graphs], kind="stable")
    for chosen in np.array_split(order, max(1, len(order) // batch_size)):
        batch = GraphBatch.from_graphs([graphs[number] for number in chosen])
        batch = batch.to(next(model.parameters()).device)
        output = model(batch).full_precision()
        score, types, nodes = output.logits[-1], output.types[-1], output.nodes[-1]
        edge, true, mask = (score > 0) & output.mask, output.target(batch.adj), output.mask
        right = (edge == true) & (~true | (types.argmax(-1) == output.entries(batch.edge_type)))
        named = (nodes.argmax(-1) == batch.node_type) | ~batch.mask
        sure = torch.nn.functional.logsigmoid(score.abs()) + edge * types.log_softmax(-1).amax(-1)
        chance = (sure * mask).sum((1, 2)) / 2 + (nodes.log_softmax(-1).amax(-1) * batch.mask).sum(1)
        whole = (right | ~mask).all(-1).all(-1) & named.all(-1) & (output.recall(batch.adj) == 1)
        edges = batch.adj.sum((1, 2)), (right & true).sum((1, 2))
        found = (whole, *edges, batch.mask.sum(1), (named & batch.mask).sum(1), chance.exp())
        rows[chosen] = torch.stack([values.double() for values in found], 1).numpy(force=True)
    return rows


def settings(words: list[str] | None = None) -> argparse.Namespace:
    """What the command line says, or these words."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=["train", "test", "calibrate"])
    parser.add_argument(
        "--data", type=Path, nargs="+", help="files of recipes/molecule_conformers.py, or folders"
    )
    parser.add_argument(
        "--held-out", type=Path, nargs="+", help="those that are not learned, if they are elsewhere"
    )
    parser.add_argument("--run", type=Path)
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--call", type=int, default=1, help="which of several calls of one training this is,")
    parser.add_argument("--calls", type=int, default=1, help="and of how many")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--epoch", type=int, default=EPOCH)
    parser.add_argument("--batch-size", type=int, default=BATCH)
    parser.add_argument("--val", type=int, default=400, help="molecules on which the loss is watched")
    parser.add_argument("--set", nargs="*", default=[], help="settings of the model, such as steps=5")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    return parser.parse_args(words)


if __name__ == "__main__":
    chosen = settings()
    {"train": train, "test": test, "calibrate": calibrate}[chosen.action](chosen)
