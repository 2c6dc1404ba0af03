"""Conformers from files as graphs to learn from: whole or without hydrogens, exact or with noise, alone or in pairs."""

from __future__ import annotations

import multiprocessing
import zlib
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from gln.graphs.batch import JoinedGraphs, counts_of
from gln.graphs.record import Graph
from recipes.molecule_labels import ELEMENTS, MOST_HYDROGENS, read

LARGEST = 112  # atoms in training
EPOCH = 120_000  # molecules from one validation to the next,
ROUNDS = 4  # but no molecule more often than this
FIRST = 4000  # in the first epoch of a call, whose molecules are checked
GROWN = 1.25  # files are read again when there are so many times as many
# All that noise asks for was learned in a fifth of the time; of heavy atoms alone, a quarter of the answers was wrong.
SHARES = {"all": 0.2, "heavy": 0.44, "noisy": 0.18, "heavy noisy": 0.08, "some hydrogens": 0.1}
MOST_NOISE = 0.12  # ångström, the largest deviation of noisy positions
# Of charged molecules without hydrogens, the share that is given with them instead: more than four of ten molecules
# that are drawn have charges, one of ten drugs has. A first model, for which all of them were kept, took amines for
# ammonium and acids for carboxylates, hardly ever the other way round.
LESS_CHARGED = 0.85
TWO = 0.04  # share of molecules with another one beside them
NEAR, FAR = 1.8, 4.0  # ångström between the two
SHARERS = 4  # processes that make an epoch
HYDROGEN = ELEMENTS.index("H")
CLASSES = MOST_HYDROGENS + 1
Made = tuple[int, dict[str, np.ndarray]]  # how many conformers there are, and the graphs of an epoch


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
    ``held_out``    ``[M]``     whether it is for validation
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
        whole = self.ends.astype(np.int32) + np.repeat(self.first, self.bonds).astype(np.int32)[:, None]
        # Of every hydrogen that may be left out, its one neighbour, which is heavier.
        self.carrier = np.full(len(self.element), -1, np.int32)
        degree = np.bincount(whole.ravel(), minlength=len(self.element))
        for one, two in (whole.T, whole.T[::-1]):
            may = (self.element[one] == HYDROGEN) & (self.element[two] != HYDROGEN) & (degree[one] == 1)
            self.carrier[one[may]] = two[may]
        self.whole = whole
        # Whether a molecule has an atom that is not neutral.
        owner = np.repeat(np.arange(len(self)), self.atoms)
        self.charged = np.bincount(owner, self.charge > 0, len(self)) > 0

    def __len__(self) -> int:
        return len(self.atoms)

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


class Store:
    """The conformers in some files and folders, into which more may be written meanwhile; or a share of the files."""

    def __init__(self, paths: Sequence[Path], share: int = 0, shares: int = 1) -> None:
        self.paths, self.share, self.shares = paths, share, shares
        self.found: dict[Path, dict[str, np.ndarray]] = {}
        self.data: Molecules | None = None

    def listed(self) -> list[Path]:
        """All files of the share, those in folders in the order of their names."""
        inside = [sorted(path.glob("*.npz*")) if path.is_dir() else [path] for path in self.paths]
        mine = (path for some in inside for path in some if path.suffix != ".tmp")
        return [path for path in mine if zlib.crc32(path.name.encode()) % self.shares == self.share]

    def molecules(self) -> Molecules | None:
        """All that is there, or what was there the last time, if it is not much less; None if nothing is."""
        listed = self.listed()
        if len(listed) > GROWN * len(self.found):
            for path in listed:
                if path not in self.found:
                    self.found[path] = read(path)
            self.data = joined(list(self.found.values()))
        return self.data


def joined(files: list[dict[str, np.ndarray]]) -> Molecules:
    """What several files hold. A molecule that was drawn twice has two conformers, and is learned twice."""
    names = set(files[0]) - {"smiles", "key"}
    return Molecules(**{name: np.concatenate([arrays[name] for arrays in files]) for name in names})


def load(paths: Sequence[Path]) -> Molecules:
    """What ``recipes/molecule_conformers.py`` wrote."""
    data = Store(paths).molecules()
    if data is None:
        raise FileNotFoundError(f"No conformers in {', '.join(map(str, paths))}.")
    return data


def smiles_in(paths: Sequence[Path]) -> list[str]:
    """The SMILES of all that :func:`load` loads."""
    return [str(word) for path in Store(paths).listed() for word in read(path)["smiles"]]


class Epochs:
    """The molecules of every epoch, by its number and what is there: made while the one before is learned.

    Making them takes about as long as learning them, so other processes do it, each for a share of the files.
    """

    def __init__(self, paths: Sequence[Path], most: int = EPOCH, shares: int = SHARERS) -> None:
        self.paths, self.most, self.begun, self.conformers = paths, most, False, 0
        self.ahead: dict[int, list[Future[Made]]] = {}
        spawn = multiprocessing.get_context("spawn")  # a process that uses a GPU must not be forked
        self.processes = [
            ProcessPoolExecutor(1, spawn) for _ in range(shares)
        ]  # one each, which keeps its files

    def __call__(self, epoch: int) -> JoinedGraphs:
        made = self.ahead.pop(epoch, None) or self.submit(epoch, self.most if self.begun else FIRST)
        self.begun = True
        self.ahead = {epoch + 1: self.submit(epoch + 1, self.most)}
        found = [future.result() for future in made]
        self.conformers = sum(count for count, _ in found)
        parts = [part for _, part in found if part]
        if not parts:
            raise FileNotFoundError(f"No conformers to learn from in {', '.join(map(str, self.paths))}.")
        return unpacked_graphs(parts)

    def submit(self, epoch: int, most: int) -> list[Future[Made]]:
        """Have the molecules of an epoch made."""
        shares = len(self.processes)
        each = -(-most // shares)
        return [
            process.submit(share_of_epoch, self.paths, share, shares, epoch, each)
            for share, process in enumerate(self.processes)
        ]

    def close(self) -> None:
        """End the processes."""
        for process in self.processes:
            process.shutdown(wait=True, cancel_futures=True)


STORES: dict[tuple[Path, ...], Store] = {}  # of the process that makes a share


def share_of_epoch(paths: Sequence[Path], share: int, shares: int, epoch: int, most: int) -> Made:
    """How many conformers a share has, and up to ``most`` molecules, each in a situation that is drawn."""
    torch.set_num_threads(1)
    store = STORES.setdefault(tuple(paths), Store(paths, share, shares))
    data, rng = store.molecules(), np.random.default_rng([30, epoch, share])
    if data is None:
        return 0, {}
    chosen, graphs = np.flatnonzero(data.held_out == 0), []
    for _ in range(ROUNDS):
        some = rng.permutation(chosen)[: most - len(graphs)]
        if len(some):
            graphs += drawn(data, some, rng)
    return len(chosen), packed(graphs) if graphs else {}


def packed(graphs: Sequence[Graph]) -> dict[str, np.ndarray]:
    """Graphs as few small arrays, which travel between processes; of every bond its first direction alone."""
    sizes, columns = counts_of(graphs)
    ends = torch.cat([graph.edge_index[:, ::2] for graph in graphs], dim=1)
    return {
        "sizes": sizes,
        "columns": columns,
        "pos": torch.cat([graph.pos for graph in graphs]).numpy(),
        "element": torch.cat([graph.x for graph in graphs]).argmax(1).to(torch.uint8).numpy(),
        "node_type": torch.cat([graph.node_type for graph in graphs]).to(torch.uint8).numpy(),
        "edge_type": torch.cat([graph.edge_type[::2] for graph in graphs]).to(torch.uint8).numpy(),
        "ends": ends.to(torch.uint8).numpy(),
    }


def unpacked_graphs(parts: Sequence[dict[str, np.ndarray]]) -> JoinedGraphs:
    """The graphs of all :func:`packed` arrays."""
    whole = {
        name: np.concatenate([part[name] for part in parts], axis=int(name == "ends")) for name in parts[0]
    }
    ends = torch.from_numpy(whole["ends"]).long()
    rows = {
        "pos": torch.from_numpy(whole["pos"]),
        "x": torch.eye(len(ELEMENTS))[torch.from_numpy(whole["element"]).long()],
        "node_type": torch.from_numpy(whole["node_type"]).long(),
    }
    types = torch.from_numpy(whole["edge_type"]).long().repeat_interleave(2)
    both = torch.stack([ends, ends.flip(0)], dim=2).flatten(1)  # one direction after the other
    return JoinedGraphs(whole["sizes"], whole["columns"], rows, {"edge_type": types}, both)


def drawn(data: Molecules, chosen: np.ndarray, rng: np.random.Generator) -> list[Graph]:
    """The ``chosen`` molecules, each in a situation that is drawn, some with another one beside them."""
    count = len(chosen)
    situation = rng.choice(len(SHARES), count, p=list(SHARES.values()))
    # Without hydrogens, geometry says little of charges; that drugs rarely have one is then worth knowing.
    bare = (situation == 1) | (situation == 3)
    situation[data.charged[chosen] & bare & (rng.random(count) < LESS_CHARGED)] -= 1
    some = (situation == 4) * rng.random(count)
    kept = np.where((situation == 0) | (situation == 2), 1.0, some)
    # Half of the noise is of the deviations that are tried, and half of any up to the largest.
    tried, any_other = rng.choice([0.05, 0.1], count), MOST_NOISE * rng.random(count)
    deviation = np.where(rng.random(count) < 0.5, tried, any_other)
    noisy = (situation == 2) | (situation == 3) | ((situation == 4) & (deviation > 0.06))
    graphs = data.graphs(chosen, kept, np.where(noisy, deviation, 0.0), rng)
    small = [number for number, graph in enumerate(graphs) if graph.num_nodes <= LARGEST // 2]
    pairs = rng.choice(small, (int(TWO * len(small)) // 2 * 2,), replace=False).reshape(-1, 2)
    for one, two in pairs:
        graphs[one] = beside(graphs[one], graphs[two], rng)
    return [graph for graph in graphs if 1 < graph.num_nodes <= LARGEST]
