"""Train and test the model that tells bonds, orders and charges from elements and positions.

    python recipes/molecules.py train --data CONFORMERS... --run runs/molecules --minutes 8 --of 24    # three times
    python recipes/molecules.py test --data CONFORMERS... --run runs/molecules
    python recipes/molecules.py calibrate --data CONFORMERS... --run runs/molecules

The conformers are those of ``recipes/molecule_conformers.py``. Training and the short test need only torch and numpy;
the rate of learning falls with the time that is left, so that training ends when the minutes are over. ``test`` prints
the share of molecules of which every bond, charge and number of hydrogens is right as the most probable one.
"""

from __future__ import annotations

import argparse
import ast
import os
import signal
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
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
from gln.training.config import FitConfig
from gln.training.losses import Loss
from gln.training.processes import Interrupted
from gln.workflows.molecules import fit_confidence
from recipes.molecule_labels import ELEMENTS, MOST_HYDROGENS, NODE_TYPES, read

LARGEST = 112  # atoms in training
NEAREST = (8, 10, 16)  # candidates in a step of training: few, so that few lengths of lists occur
EPOCH = 150_000  # molecules from one validation to the next
FIRST = 4000  # in the first epoch, whose molecules are checked
SHARES = {"all": 0.2, "heavy": 0.36, "noisy": 0.22, "heavy noisy": 0.1, "some hydrogens": 0.12}
SITUATIONS = {  # that are tried: the share of hydrogens that are there, and noise in ångström
    "all atoms": (1, 0.0),
    "heavy atoms": (0, 0.0),
    "noise .05": (1, 0.05),
    "noise .1": (1, 0.1),
    "heavy, noise .05": (0, 0.05),
}
MOST_NOISE = 0.12  # ångström, the largest deviation of noisy positions
LESS_CHARGED = 0.5  # of charged molecules without hydrogens, the share that is given with them instead
TWO = 0.04  # share of molecules with another one beside them
NEAR, FAR = 1.8, 4.0  # ångström between the two
TWICE = 2
BATCH = 256
MODEL: dict[str, Any] = {
    "in_channels": len(ELEMENTS),
    "pos_channels": 3,
    "width": 96,
    "pair_width": 32,
    "steps": 4,
    "candidates": 10,
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
    "progress": False,
}
LOSS = Loss(edge="plain", structure="none", psi1=2, psi3=2, psi5=2, every_step=True)
HYDROGEN = ELEMENTS.index("H")
CLASSES = MOST_HYDROGENS + 1


@dataclass
class Molecules:
    """Conformers, one after another.

    ==============  ==========  ==================================================================
    ``atoms``       ``[M]``     how many atoms each has
    ``bonds``       ``[M]``     how many bonds
    ``element``     ``[n]``     of every atom, its place in ``ELEMENTS``
    ``charge``      ``[n]``     neutral, positive, negative or shared
    ``pos``         ``[n, 3]``  in ångström
    ``ends``        ``[m, 2]``  of every bond, two atoms of the molecule
    ``order``       ``[m]``     of every bond
    ``how``         ``[M]``     how the conformer was made
    ``held_out``    ``[M]``     whether it is for validation (1), or there already (2)
    ==============  ==========  ==================================================================
    """

    atoms: np.ndarray
    bonds: np.ndarray
    element: np.ndarray
    charge: np.ndarray
    pos: np.ndarray
    ends: np.ndarray
    order: np.ndarray
    how: np.ndarray
    held_out: np.ndarray

    def __post_init__(self) -> None:
        self.first = np.cumsum(self.atoms, dtype=np.int64) - self.atoms
        self.first_bond = np.cumsum(self.bonds, dtype=np.int64) - self.bonds
        # A hydrogen that may be left out has one neighbour, which is heavier.
        whole = self.ends.astype(np.int64) + np.repeat(self.first, self.bonds)[:, None]
        self.carrier = np.full(
            len(self.element), -1
        )  # of every hydrogen that may be left out, its place among all atoms
        degree = np.bincount(whole.ravel(), minlength=len(self.element))
        for one, two in (whole.T, whole.T[::-1]):
            may = (self.element[one] == HYDROGEN) & (self.element[two] != HYDROGEN) & (degree[one] == 1)
            self.carrier[one[may]] = two[may]
        self.whole = whole

    def __len__(self) -> int:
        return len(self.atoms)

    def charged(self) -> np.ndarray:
        """Whether a molecule has an atom that is not neutral: ``[M]``."""
        return np.bincount(np.repeat(np.arange(len(self)), self.atoms), self.charge > 0, len(self)) > 0

    def graphs(
        self, chosen: np.ndarray, kept: np.ndarray, noise: np.ndarray, rng: np.random.Generator
    ) -> list[Graph]:
        """The ``chosen`` molecules with a share of hydrogens ``kept`` and noise of such deviations, each ``[M']``."""
        rows, mol, _ = ranges(self.first, self.atoms, chosen)
        stays = (self.carrier[rows] < 0) | (rng.random(len(rows)) < kept[mol])
        place = np.full(len(self.element), -1)  # of every atom, its row below; molecules are chosen once
        rows_kept, mol_kept = rows[stays], mol[stays]
        place[rows_kept] = np.arange(len(rows_kept))
        count = np.bincount(mol_kept, minlength=len(chosen))
        lost = np.bincount(np.maximum(self.carrier[rows[~stays]], 0), minlength=len(self.element))[rows_kept]
        deviation = noise[mol_kept][:, None]
        stretch = (1 + 0.05 * noise * rng.standard_normal(len(chosen)))[mol_kept][:, None]
        pos = self.pos[rows_kept] * stretch + deviation * rng.standard_normal((len(rows_kept), 3))
        bonds, mol_of_bond, _ = ranges(self.first_bond, self.bonds, chosen)
        ends = place[self.whole[bonds]]
        there = (ends >= 0).all(1)
        ends, order, mol_of_bond = ends[there], self.order[bonds[there]], mol_of_bond[there]
        ends = ends - (np.cumsum(count) - count)[mol_of_bond][:, None]
        both = np.concatenate([ends[:, None], ends[:, None, ::-1]], axis=1).reshape(
            -1, 2
        )  # one after the other
        bond_count = 2 * np.bincount(mol_of_bond, minlength=len(chosen))
        flat = {
            "pos": torch.from_numpy(pos.astype(np.float32)),
            "x": torch.from_numpy(np.eye(len(ELEMENTS), dtype=np.float32)[self.element[rows_kept]]),
            "node_type": torch.from_numpy(CLASSES * self.charge[rows_kept].astype(np.int64) + lost),
            "edge_type": torch.from_numpy(order.astype(np.int64).repeat(2)),
        }
        sizes, columns = count.tolist(), bond_count.tolist()
        parts = [flat[name].split(sizes) for name in ("pos", "x", "node_type")]
        parts += [flat["edge_type"].split(columns), torch.from_numpy(both.T.copy()).split(columns, dim=1)]
        names = ("pos", "x", "node_type", "edge_type", "edge_index")
        return [
            Graph(size, **dict(zip(names, values, strict=True)))
            for size, values in zip(sizes, zip(*parts, strict=True), strict=True)
        ]


def ranges(
    first: np.ndarray, counts: np.ndarray, chosen: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of some molecules, the rows of all their atoms (or bonds), which molecule each is of, and its place there."""
    some = counts[chosen].astype(np.int64)
    mol = np.repeat(np.arange(len(chosen)), some)
    place = np.arange(len(mol)) - np.repeat(np.cumsum(some) - some, some)
    return first[chosen][mol] + place, mol, place


def beside(one: Graph, two: Graph, rng: np.random.Generator) -> Graph:
    """Two molecules in one graph, the second turned, and so far away that they nearly touch."""
    turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    first, second = one.pos.numpy(), two.pos.numpy() @ turn.astype(np.float32)
    way = rng.standard_normal(3)
    way /= np.linalg.norm(way)
    gap = rng.uniform(NEAR, FAR)
    second = second - second.mean(0) + first[rng.integers(len(first))]
    for _ in range(60):
        nearest = np.linalg.norm(first[:, None] - second[None], axis=-1).min()
        if nearest >= gap:
            break
        second = (second + max(0.3, (gap - nearest) / 2) * way).astype(np.float32)
    joined = {name: torch.cat([one[name], two[name]]) for name in ("x", "node_type", "edge_type")}
    edges = torch.cat([one.edge_index, two.edge_index + one.num_nodes], dim=1)
    pos = torch.from_numpy(np.concatenate([first, second]).astype(np.float32))
    return Graph(one.num_nodes + two.num_nodes, pos=pos, edge_index=edges, **joined)


class Epochs:
    """The molecules of every epoch, a function of its number: made while the one before is learned."""

    def __init__(self, data: Molecules, chosen: np.ndarray, count: int) -> None:
        self.data, self.chosen, self.count = data, chosen, min(count, len(chosen))
        self.charged = data.charged()
        self.ahead: dict[int, Future[list[Graph]]] = {}
        self.thread = ThreadPoolExecutor(1)

    def __call__(self, epoch: int) -> list[Graph]:
        ahead = self.ahead.pop(epoch, None)
        self.ahead = {epoch + 1: self.thread.submit(self.make, epoch + 1)}
        return self.make(epoch) if ahead is None else ahead.result()

    def make(self, epoch: int) -> list[Graph]:
        rng = np.random.default_rng([30, epoch])
        count = self.count if epoch else min(self.count, FIRST)
        chosen = rng.choice(self.chosen, count, replace=False)
        situation = rng.choice(len(SHARES), count, p=list(SHARES.values()))
        # Without hydrogens, geometry says little of charges; that drugs rarely have one is then worth knowing.
        swap = (
            self.charged[chosen] & ((situation == 1) | (situation == 3)) & (rng.random(count) < LESS_CHARGED)
        )
        situation[swap] -= 1
        some = (situation == 4) * rng.random(count)
        kept = np.where((situation == 0) | (situation == 2), 1.0, some)
        # Half of the noise is of the deviations that are tried, and half of any up to the largest.
        drawn = np.where(
            rng.random(count) < 0.5, rng.choice([0.05, 0.1], count), MOST_NOISE * rng.random(count)
        )
        noise = np.where(
            (situation == 2) | (situation == 3) | ((situation == 4) & (drawn > 0.06)), drawn, 0.0
        )
        graphs = self.data.graphs(chosen, kept, noise, rng)
        small = [number for number, graph in enumerate(graphs) if graph.num_nodes <= LARGEST // 2]
        pairs = rng.choice(small, (int(TWO * len(small)) // 2 * 2,), replace=False).reshape(-1, 2)
        for one, two in pairs:
            graphs[one] = beside(graphs[one], graphs[two], rng)
        return [graph for graph in graphs if 1 < graph.num_nodes <= LARGEST]


def some_pairs(model: gln.GLN, batch: GraphBatch) -> dict[str, Tensor]:
    """What a step of training scores: every atom with so many nearest."""
    assert batch.pos is not None
    nearest = NEAREST[int(torch.randint(len(NEAREST), ()))]
    pairs = candidate_pairs(batch.pos, batch.mask, nearest, listed=True)
    assert isinstance(pairs, ListedPairs)
    return pairs.padded().as_tensors()


class Timed(FitConfig):
    """Training for so many minutes: the rate of learning falls to 0 as they pass, not as epochs do."""

    spent, total, begun = 0.0, 1.0, 0.0  # seconds

    def lr_at(self, epoch: int, batch: int, batches: int) -> float:
        now = (Timed.spent + time.monotonic() - Timed.begun) / Timed.total
        if now < self.warmup:
            return self.lr * max(now, 1e-3) / self.warmup
        return self.lr * float(0.5 * (1 + np.cos(np.pi * min(now, 1))))


def train(given: argparse.Namespace) -> None:
    """Train for so many minutes; again to go on."""
    torch.set_float32_matmul_precision("high")
    sys.setswitchinterval(5e-4)  # the next epoch's molecules are made meanwhile
    data = load(given.data)
    held = np.flatnonzero(data.held_out == 1)
    rng = np.random.default_rng(1)
    some = held[: given.val]  # the same when more files are added
    situation = rng.choice(5, len(some), p=list(SHARES.values()))
    kept = np.where((situation == 0) | (situation == 2), 1.0, (situation == 4) * 0.5)
    val = data.graphs(some, kept, 0.07 * ((situation == 2) | (situation == 3)), rng)
    val = [graph for graph in val if 1 < graph.num_nodes <= LARGEST and graph.num_edges]
    epochs = Epochs(data, np.flatnonzero(data.held_out == 0), given.epoch)
    torch.manual_seed(0)
    model = gln.GLN(**MODEL | settings_in(given.set))
    model.draw = MethodType(some_pairs, model)  # type: ignore[method-assign]
    weights = sum(weight.numel() for weight in model.parameters())
    print(f"{len(data)} conformers, {len(held)} held out; {weights:,} weights", flush=True)
    rows = (
        (given.run / "metrics.csv").read_text().splitlines() if (given.run / "metrics.csv").exists() else []
    )
    if len(rows) > 1:
        Timed.spent = float(dict(zip(rows[0].split(","), rows[-1].split(","), strict=True))["seconds"])
    Timed.total, Timed.begun = max(60 * (given.of or 0), Timed.spent + 60 * given.minutes), time.monotonic()
    timer = threading.Timer(60 * given.minutes + 4, os.kill, (os.getpid(), signal.SIGTERM))
    timer.daemon = True
    timer.start()
    config = Timed(
        epochs=100_000, lr=given.lr, accelerator=given.device, **FIT | {"batch_size": given.batch_size}
    )
    try:
        gln.fit(model, epochs, val, run=given.run, resume=True, loss=LOSS, config=config)
    except Interrupted:
        path = given.run / "metrics.csv"
        print(path.read_text()[-400:] if path.exists() else "in the first epoch", flush=True)
    finally:
        timer.cancel()
        epochs.thread.shutdown(wait=True, cancel_futures=True)


def test(given: argparse.Namespace) -> None:
    """A table of the share of molecules that are exactly right."""
    model = gln.load(given.run).to(given.device).eval()
    data = load(given.data)
    held = np.flatnonzero(data.held_out == 1)[: given.val]
    charged = data.charged()
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
    model = gln.load(given.run)
    data, rng = load(given.data), np.random.default_rng(3)
    held = np.flatnonzero(data.held_out == 1)[: given.val]
    graphs: list[Graph] = []
    for kept, noise in SITUATIONS.values():
        some = data.graphs(held, np.full(len(held), kept), np.full(len(held), noise), rng)
        graphs += [graph for graph in some if graph.num_nodes > 1]
    print(f"{len(graphs)} graphs: {fit_confidence(model, graphs)}", flush=True)
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


def load(paths: list[Path]) -> Molecules:
    """Join what ``recipes/molecule_conformers.py`` wrote; of a molecule that was drawn twice, the first."""
    files = [read(path) for path in paths]
    for arrays in files:
        del arrays["smiles"]
    keys = np.concatenate([arrays.pop("key") for arrays in files])
    data = Molecules(**{name: np.concatenate([arrays[name] for arrays in files]) for name in files[0]})
    first = np.unique(keys, return_index=True)[1]
    data.held_out[np.setdiff1d(np.arange(len(keys)), first)] = TWICE
    return data


def settings_in(words: list[str]) -> dict[str, Any]:
    """``["steps=5"]`` as settings."""
    return {word.partition("=")[0]: ast.literal_eval(word.partition("=")[2]) for word in words}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=["train", "test", "calibrate"])
    parser.add_argument("--data", type=Path, nargs="+", help="files of recipes/molecule_conformers.py")
    parser.add_argument("--run", type=Path)
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--of", type=float, help="minutes of all calls together, if there are to be several")
    parser.add_argument("--lr", type=float, default=1.5e-3)
    parser.add_argument("--epoch", type=int, default=EPOCH)
    parser.add_argument("--batch-size", type=int, default=BATCH)
    parser.add_argument("--val", type=int, default=1200)
    parser.add_argument("--set", nargs="*", default=[], help="settings of the model, such as steps=5")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    given = parser.parse_args()
    {"train": train, "test": test, "calibrate": calibrate}[given.action](given)


if __name__ == "__main__":
    main()
