"""Kronecker graphs, fitted in the manner of KronFit (Leskovec et al., JMLR 2010).

The nodes of a Kronecker graph of ``k`` levels sit at the positions 0 … 2ᵏ − 1. The probability of an edge is a product
of one entry of the initiator ``[[a, b], [b, c]]`` per bit: ``a`` where both bits are 0, ``b`` where they differ, ``c``
where both are 1. So it depends on only two counts, the **kind** of a pair: on how many levels *both* bits are 1, and on
how many they *differ*. There are 4ᵏ pairs but few kinds, and all pairs of a kind are alike, so the likelihood and its
gradient are short exact sums (Leskovec et al. 2010 use a Taylor expansion).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import torch
from scipy.special import comb
from tqdm.auto import tqdm  # type: ignore[import-untyped]

from gln.baselines.base import Sampler, register
from gln.graphs import make_graph
from gln.graphs.record import Graph
from gln.ops.loops import compiled, spread
from gln.seeds import GENERATE

# Bounds on the entries of an initiator: no pair is impossible, none is certain.
LEAST, MOST = 1e-4, 1 - 1e-4
# Starting points for the ascent as a, b, c: a dense core with a sparse rim, and two halves that keep to themselves.
# Metropolis swaps rarely lead from one shape to the other, so both are tried.
STARTS = ((0.9, 0.6, 0.2), (0.9, 0.3, 0.8))
RECORDS = 10  # placements averaged in a round
STRIDE = 1.5  # how much longer a step is than with known placements; from 2 on it would oscillate
LONGEST = 0.2  # the largest change of the logarithm of an entry in one round
CELLS = 2**22  # pairs drawn at a time
CROWD = 2  # upper limit on the average number of a node's neighbours in proposing pairs


@register("kronecker")
@dataclass(kw_only=True)
class Kronecker(Sampler):
    """A Kronecker graph, whose edge probabilities are products of entries of a 2 × 2 matrix fitted by KronFit.

    The initiator ``[[a, b], [b, c]]`` ascends the likelihood, averaged over node placements drawn by Metropolis
    sampling (:class:`Placement`). Each round takes one natural-gradient step, and the result is
    the mean over the second half of the rounds. Of two starts, the one whose placed graphs are more likely is kept.

    A graph whose size is not a power of two is padded with isolated nodes. To undo that, a sampled graph drops its
    nodes of lowest degree, down to the size of a random training graph; the edges of dropped nodes are lost.

    Args:
        per: ``"pool"`` fits one initiator to all graphs, because a family is one process and its three numbers need
            all the data; ``"graph"`` fits one to each graph and samples from a random one.
        rounds: gradient steps from each start.
        steps: Metropolis steps before each of the ten placements averaged in a round; one step proposes many swaps
            in every graph.

    Attributes:
        initiator_: ``a``, ``b``, ``c`` ``[1, 3]`` or, per graph, ``[G, 3]``; ``a ≥ c``, as the order of the two
            depends only on how positions are numbered.
        sizes_: nodes of the training graphs ``[G]``.
    """

    per: Literal["pool", "graph"] = "pool"
    rounds: int = 200
    steps: int = 5

    fitted = "pooled: one initiator for all graphs; per=graph fits one to each."
    learned = ("initiator", "sizes")
    choices: ClassVar = {"per": ("pool", "graph")}
    counts = ("rounds", "steps")

    def learn(
        self, graphs: list[Graph], val: Sequence[Graph], seed: int, progress: bool, folder: Path | None
    ) -> None:
        """Fit to the edges of ``graphs``; ``val`` is not used, and nothing is kept in ``folder`` during the fit."""
        total = self.rounds * len(STARTS)
        with tqdm(total=total, disable=None if progress else True, unit="round", desc=self.name) as bar:
            ends = [
                self._climb(graphs, np.array(start), np.random.default_rng([seed, number]), bar.update)
                for number, start in enumerate(STARTS)
            ]
        initiators, likelihoods = (np.stack(parts) for parts in zip(*ends, strict=True))  # [S, T, 3], [S, T]
        best = np.take_along_axis(initiators, likelihoods.argmax(axis=0)[None, :, None], axis=0)[0]  # [T, 3]
        best = np.where(best[:, :1] < best[:, 2:], best[:, ::-1], best)
        self.initiator_ = torch.from_numpy(best.copy())
        self.sizes_ = torch.tensor([graph.num_nodes for graph in graphs])

    def draw(self, count: int, seed: int = 0) -> list[Graph]:
        count, seed = self._checked(count, seed)
        return [self._draw(np.random.default_rng([GENERATE, seed, number])) for number in range(count)]

    def _climb(
        self,
        graphs: Sequence[Graph],
        start: np.ndarray,
        rng: np.random.Generator,
        tick: Callable[[], object],
    ) -> tuple[np.ndarray, np.ndarray]:
        """The initiators ``[T, 3]`` reached from ``start``, and their log-likelihood in the second half ``[T]``."""
        placement = Placement(graphs, rng)
        kinds = Kinds(placement.levels)
        initiator = self._gather(_scale(start, graphs, placement.levels), np.mean)
        half = self.rounds // 2
        mean, likelihood = np.zeros_like(initiator), np.zeros(len(initiator))
        for number in range(self.rounds):
            each = np.broadcast_to(initiator, (len(graphs), 3))
            edges = _average_edges(placement, kinds.log_odds(each), self.steps)
            gradient = self._gather(kinds.gradient(each, edges), np.sum)
            information = self._gather(kinds.information(each), np.sum)
            initiator = _step(initiator, gradient, information)
            if number >= half:
                mean += initiator
                likelihood += self._gather(kinds.log_likelihood(each, edges), np.sum)
            tick()
        return mean / (self.rounds - half), likelihood / (self.rounds - half)

    def _gather(self, values: np.ndarray, how: Callable[..., np.ndarray]) -> np.ndarray:
        """``[G, …]`` as ``[T, …]``: all graphs together, or each by itself."""
        return how(values, axis=0, keepdims=True) if self.per == "pool" else values

    def _draw(self, rng: np.random.Generator) -> Graph:
        which = int(rng.integers(len(self.sizes_)))
        size = int(self.sizes_[which])
        levels = levels_for(size)
        edges = draw_edges(self.initiator_[which % len(self.initiator_)].numpy(), levels, rng)  # [m, 2]
        degree = np.bincount(edges.ravel(), minlength=2**levels)
        kept = np.lexsort((rng.random(len(degree)), -degree))[:size]
        number = np.full(len(degree), -1)
        number[kept] = rng.permutation(size)
        edges = number[edges]
        return make_graph(edges=edges[(edges >= 0).all(axis=1)], num_nodes=size)


def _scale(start: np.ndarray, graphs: Sequence[Graph], levels: np.ndarray) -> np.ndarray:
    """``start`` scaled to give about as many edges as every graph has: ``[G, 3]``."""
    ordered_pairs = np.array([graph.num_edges for graph in graphs])
    # The entries of the k-th power of an initiator add up to the k-th power of their sum.
    factor = ordered_pairs ** (1 / levels) / (start @ [1, 2, 1])
    return np.clip(start * factor[:, None], LEAST, MOST)


def _average_edges(placement: Placement, log_odds: np.ndarray, apart: int) -> np.ndarray:
    """The edges of each kind ``[G, K + 1, K + 1]``, averaged over placements that are ``apart`` steps apart."""
    edges = np.zeros(log_odds.shape)
    for _ in range(RECORDS):
        for _ in range(apart):
            placement.step(log_odds)
        edges += placement.count_edges() / RECORDS
    return edges


def _step(initiator: np.ndarray, gradient: np.ndarray, information: np.ndarray) -> np.ndarray:
    """Initiators ``[T, 3]`` after a natural-gradient step."""
    # An entry pushed against its bound is left out, or the others would adjust to a move that cannot happen.
    stuck = ((initiator >= MOST) & (gradient > 0)) | ((initiator <= LEAST) & (gradient < 0))  # [T, 3]
    information = np.where(stuck[:, :, None] | stuck[:, None, :], 0, information) + 1e-9 * np.eye(3)
    move = np.linalg.solve(information, np.where(stuck, 0, gradient)[..., None])[..., 0]
    return np.clip(initiator * np.exp(np.clip(STRIDE * move, -LONGEST, LONGEST)), LEAST, MOST)


class Kinds:
    """The kinds of pairs in ``G`` Kronecker graphs; ``K`` is the largest number of levels among them.

    Args:
        levels: levels of every graph ``[G]``, at least 1.

    Attributes:
        pairs: number of unordered pairs of each kind ``[G, K + 1, K + 1]``, by ``both`` and ``differ``.
        powers: powers of ``a``, ``b`` and ``c`` in each kind ``[G, K + 1, K + 1, 3]``; 0 for kinds without pairs.
    """

    def __init__(self, levels: np.ndarray) -> None:
        most = int(levels.max())
        both, differ = np.indices((most + 1, most + 1))
        rest = levels[:, None, None] - both
        neither = rest - differ
        ways = comb(both + rest, both) * comb(rest, differ)  # 0 where they do not fit
        # Each differing level can go two ways, but an unordered pair fixes the first of them.
        self.pairs = np.where(differ > 0, ways.round() * 2.0 ** (differ - 1), 0)
        powers = np.stack(np.broadcast_arrays(neither, differ, both), axis=-1)
        self.powers = powers * (self.pairs > 0)[..., None]

    def log_probabilities(self, initiator: np.ndarray) -> np.ndarray:
        """log P of a pair of each kind ``[G, K + 1, K + 1]`` for initiators ``[G, 3]``; log ½ without pairs."""
        logs = np.einsum("gijc,gc->gij", self.powers, np.log(initiator))
        return np.where(self.pairs > 0, logs, np.log(0.5))

    def log_odds(self, initiator: np.ndarray) -> np.ndarray:
        """log P − log(1 − P) of each kind ``[G, K + 1, K + 1]``."""
        logs = self.log_probabilities(initiator)
        return logs - np.log1p(-np.exp(logs))

    def log_likelihood(self, initiator: np.ndarray, edges: np.ndarray) -> np.ndarray:
        """log P ``[G]`` of graphs with this number of ``edges`` of each kind ``[G, K + 1, K + 1]``."""
        logs = self.log_probabilities(initiator)
        return (edges * logs + (self.pairs - edges) * np.log1p(-np.exp(logs))).sum(axis=(1, 2))

    def gradient(self, initiator: np.ndarray, edges: np.ndarray) -> np.ndarray:
        """The gradient of :meth:`log_likelihood` by the logarithms of the initiator: ``[G, 3]``."""
        p = np.exp(self.log_probabilities(initiator))
        return np.einsum("gij,gijc->gc", (edges - self.pairs * p) / (1 - p), self.powers)

    def information(self, initiator: np.ndarray) -> np.ndarray:
        """The Fisher information of the logarithms of the initiator: ``[G, 3, 3]``."""
        p = np.exp(self.log_probabilities(initiator))
        return np.einsum("gij,gijc,gijd->gcd", self.pairs * p / (1 - p), self.powers, self.powers)


def draw_edges(initiator: np.ndarray, levels: int, rng: np.random.Generator) -> np.ndarray:
    """Draw the edges of one Kronecker graph as positions ``[m, 2]``, every pair joined independently."""
    chance = np.exp(Kinds(np.array([levels])).log_probabilities(initiator[None]))[0]  # [k + 1, k + 1]
    place = np.arange(2**levels)
    ones = np.array([number.bit_count() for number in place.tolist()])
    step, found = max(1, CELLS // len(place)), []
    for start in range(0, len(place), step):  # some rows of the matrix at a time
        row = place[start : start + step, None]
        joined = rng.random((len(row), len(place))) < chance[ones[row & place], ones[row ^ place]]
        found.append(np.argwhere(joined & (row < place)) + np.array([start, 0]))
    return np.concatenate(found)


class Placement:
    """The positions of the nodes of ``G`` graphs, each padded with isolated nodes to a power of two.

    All graphs form one disjoint union of ``M`` nodes: a graph's own nodes in order, its padding, the next graph.

    Attributes:
        levels: levels of every graph ``[G]``: the fewest that hold its nodes.
        starts: the first node of every graph ``[G]``.
        position: position of every node ``[M]``, from 0 to 2^levels − 1 within its graph.
    """

    def __init__(self, graphs: Sequence[Graph], rng: np.random.Generator) -> None:
        self.rng = rng
        sizes = np.array([graph.num_nodes for graph in graphs])
        self.levels = np.array([levels_for(size) for size in sizes.tolist()])
        room = 2**self.levels
        self.starts = np.cumsum(room) - room
        self.graph = np.repeat(np.arange(len(graphs)), room)  # of every node
        self.offset = self.starts[self.graph]
        edges = [
            graph.edge_index.cpu().numpy() + start for graph, start in zip(graphs, self.starts, strict=True)
        ]
        source, self.target = np.concatenate(edges, axis=1)  # sorted by source
        once = source < self.target
        self.edges = source[once], self.target[once]
        self.degree = np.bincount(source, minlength=len(self.graph))
        self.begins = np.concatenate([[0], np.cumsum(self.degree)])  # where the edges of every node begin
        # More pairs than this share would mostly block each other and only cost time.
        self.share = np.minimum(CROWD * room / np.maximum([graph.num_edges for graph in graphs], 1), 1)  # [G]
        self.ones = np.array([place.bit_count() for place in range(int(room.max()))])  # in every position
        self._place_by_degree()

    def _place_by_degree(self) -> None:
        """Place nodes of high degree at positions with few ones, where the first entry of the initiator dominates."""
        nodes = len(self.graph)
        slot = np.arange(nodes) - self.offset
        # Break ties at random: the position of a node must not reveal its number.
        by_degree = np.lexsort((self.rng.random(nodes), -self.degree, self.graph))
        by_ones = np.lexsort((self.rng.random(nodes), self.ones[slot], self.graph))
        self.position = np.empty(nodes, dtype=np.int64)
        self.position[by_degree] = slot[by_ones]

    def count_edges(self) -> np.ndarray:
        """How many edges join positions of each kind ``[G, K + 1, K + 1]``, by ``both`` and ``differ``."""
        source, target = self.edges
        i, j = self.position[source], self.position[target]
        width = int(self.levels.max()) + 1
        kind = (self.graph[source] * width + self.ones[i & j]) * width + self.ones[i ^ j]
        count = np.bincount(kind, minlength=len(self.levels) * width**2)
        return count.reshape(len(self.levels), width, width)

    def step(self, log_odds: np.ndarray) -> None:
        """One Metropolis step in all graphs, with the ``log_odds [G, K + 1, K + 1]`` of each kind of pair.

        In every graph a random level pairs off the positions that differ only there, and some pairs of nodes propose
        to swap: a random share, minus those joined by an edge to a pair of higher priority. So no two proposing pairs
        are joined, their gains are independent, and all decide at once. Who proposes depends on the graph, the pairs
        and chance, none of which a swap changes, so the posterior over placements stays invariant.
        """
        nodes = len(self.graph)
        bit = 1 << self.rng.integers(self.levels)  # [G]
        first, second = self.rng.random(nodes), self.rng.random(nodes)  # to propose, to accept
        graphs = (self.starts, self.levels, bit, self.share, log_odds)
        edges = (self.begins, self.target, self.ones)
        spread(_compiled(_swap), 0, len(self.starts), *graphs, *edges, first, second, self.position)


_compiled = cache(compiled)  # on first use


def _swap(  # type: ignore[no-untyped-def]
    begin, end, starts, levels, bit, share, log_odds, begins, target, ones, first, second, position
):
    """:meth:`Placement.step` of some graphs, pair after pair; ``bit [G]`` is the level, the numbers are drawn."""
    most = 1 << levels.max()
    at, priority = np.empty(most, np.int64), np.empty(most)
    for g in range(begin, end):
        start, room = starts[g], 1 << levels[g]
        for i in range(room):
            at[position[start + i]] = i
        for low in range(room):
            if low & bit[g] == 0:
                i, j = at[low], at[low ^ bit[g]]
                priority[i] = priority[j] = first[start + min(i, j)] - (1 - share[g])
        for low in range(room):
            if low & bit[g] or priority[at[low]] <= 0:
                continue
            i, j = at[low], at[low ^ bit[g]]
            rival = 0.0
            for own, mate in ((i, j), (j, i)):
                for e in range(begins[start + own], begins[start + own + 1]):
                    if target[e] - start != mate:
                        rival = max(rival, priority[target[e] - start])
            if rival >= priority[i]:
                continue
            gain = 0.0
            for own, mate in ((i, j), (j, i)):
                old = position[start + own]
                new = old ^ bit[g]
                for e in range(begins[start + own], begins[start + own + 1]):
                    if target[e] - start != mate:
                        there = position[target[e]]
                        gain += log_odds[g, ones[new & there], ones[new ^ there]]
                        gain -= log_odds[g, ones[old & there], ones[old ^ there]]
            if math.log(second[start + min(i, j)]) < gain:
                # In place: no neighbour of theirs proposes, so no other pair reads their positions.
                position[start + i] ^= bit[g]
                position[start + j] ^= bit[g]


def levels_for(nodes: int) -> int:
    """The fewest levels, at least 1, with enough positions for this many nodes."""
    return max((nodes - 1).bit_length(), 1)
