"""Kronecker graphs, fitted in the manner of KronFit (Leskovec et al., JMLR 2010).

The nodes of a Kronecker graph of ``k`` levels sit at the positions 0 … 2ᵏ − 1. The probability of an edge is a product
of one entry of the initiator ``[[a, b], [b, c]]`` per bit: ``a`` where both bits are 0, ``b`` where they differ, ``c``
where both are 1. So it depends on only two counts, the **kind** of a pair: on how many levels *both* bits are 1, and on
how many they *differ*. There are 4ᵏ pairs but few kinds, and all pairs of a kind are alike, so the likelihood and its
gradient are short exact sums (Leskovec et al. 2010 use a Taylor expansion).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import torch
from scipy.special import comb
from tqdm.auto import tqdm  # type: ignore[import-untyped]

from gln.baselines.base import Sampler, register
from gln.graphs import make_graph
from gln.graphs.record import Graph
from gln.seeds import GENERATE
from reproduction.baselines.kronecker_placement import Placement, levels_for

# Bounds on the entries of an initiator: no pair is impossible, none is certain.
LEAST, MOST = 1e-4, 1 - 1e-4
# Starting points for the ascent as a, b, c: a dense core with a sparse rim, and two halves that keep to themselves.
# Metropolis swaps rarely lead from one shape to the other, so both are tried.
STARTS = ((0.9, 0.6, 0.2), (0.9, 0.3, 0.8))
RECORDS = 10  # placements averaged in a round
STRIDE = 1.5  # how much longer a step is than with known placements; from 2 on it would oscillate
LONGEST = 0.2  # the largest change of the logarithm of an entry in one round
CELLS = 2**22  # pairs drawn at a time


@register("kronecker")
@dataclass(kw_only=True)
class Kronecker(Sampler):
    """A Kronecker graph, whose edge probabilities are products of entries of a 2 × 2 matrix fitted by KronFit.

    The initiator ``[[a, b], [b, c]]`` ascends the likelihood, averaged over node placements drawn by Metropolis
    sampling (``kronecker_placement.py``). Each round takes one natural-gradient step, and the result is
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
