"""Kronecker graphs, fitted in the manner of KronFit (Leskovec et al., JMLR 2010)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor
from tqdm.auto import tqdm  # type: ignore[import-untyped]

from gln.baselines.base import Sampler, register
from gln.baselines.kronecker_model import LEAST, MOST, Kinds, draw_edges
from gln.baselines.kronecker_placement import Placement, levels_for
from gln.graphs import as_graphs, make_graph
from gln.graphs.check import check_whole
from gln.graphs.record import Graph
from gln.seeds import GENERATE, check_seed

# Starting points for the ascent as a, b, c: a dense core with a sparse rim, and two halves that keep to themselves.
# Metropolis swaps rarely lead from one shape to the other, so both are tried.
STARTS = ((0.9, 0.6, 0.2), (0.9, 0.3, 0.8))
RECORDS = 10  # placements averaged in a round
STRIDE = 1.5  # how much longer a step is than with known placements; from 2 on it would oscillate
LONGEST = 0.2  # the largest change of the logarithm of an entry in one round


@register("kronecker")
@dataclass(kw_only=True)
class Kronecker(Sampler):
    """A Kronecker graph, whose edge probabilities are products of entries of a 2 × 2 matrix fitted by KronFit.

    The initiator ``[[a, b], [b, c]]`` ascends the likelihood, averaged over node placements drawn by Metropolis
    sampling; see :mod:`gln.baselines.kronecker_model` and :mod:`gln.baselines.kronecker_placement`. Each round takes
    one natural-gradient step, and the result is the mean over the second half of the rounds. Of two starts, the one
    whose placed graphs are more likely is kept.

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

    fitted: ClassVar[str] = "pooled: one initiator for all graphs; per=graph fits one to each."

    def __post_init__(self) -> None:
        self._check_choice("per", ("pool", "graph"))
        self._keep_whole("rounds")
        self._keep_whole("steps")

    def fit(
        self,
        graphs: Sequence[Graph],
        val: Sequence[Graph] = (),
        *,
        seed: int = 0,
        progress: bool = False,
        folder: Path | None = None,
    ) -> Self:
        """Fit to the edges of ``graphs``; ``val`` is not used, and nothing is kept in ``folder`` during the fit."""
        graphs = as_graphs(graphs)
        seed = check_seed("fit", seed)
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
        return self

    def draw(self, count: int, seed: int = 0) -> list[Graph]:
        self._need_fit("initiator_")
        count, seed = check_whole("sample", "count", count, 1), check_seed("sample", seed)
        return [self._draw(np.random.default_rng([GENERATE, seed, number])) for number in range(count)]

    def state(self) -> dict[str, Tensor]:
        self._need_fit("initiator_")
        return {"initiator": self.initiator_, "sizes": self.sizes_}

    def restore(self, state: dict[str, Tensor]) -> None:
        self.initiator_, self.sizes_ = state["initiator"], state["sizes"]

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
