"""Kronecker graphs as a distribution: the likelihood of a graph, its gradient, and sampling.

The nodes of a Kronecker graph of ``k`` levels sit at the positions 0 … 2ᵏ − 1. The probability of an edge is a product
of one entry of the initiator ``[[a, b], [b, c]]`` per bit: ``a`` where both bits are 0, ``b`` where they differ, ``c``
where both are 1. So it depends on only two counts, the **kind** of a pair: on how many levels *both* bits are 1, and on
how many they *differ*. There are 4ᵏ pairs but few kinds, and all pairs of a kind are alike, so the likelihood and its
gradient are short exact sums (Leskovec et al. 2010 use a Taylor expansion), and sampling is exact without looking at
every pair (compare the hopping of Ramani, Eikmeier and Gleich 2019).
"""

from __future__ import annotations

import numpy as np

# Bounds on the entries of an initiator: no pair is impossible, none is certain.
LEAST, MOST = 1e-4, 1 - 1e-4


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
        # Each differing level can go two ways, but an unordered pair fixes the first of them.
        ways = arrangements(most)[levels, : most + 1, : most + 1]
        self.pairs = np.where(differ > 0, ways * 2 ** np.maximum(differ - 1, 0), 0)
        neither = levels[:, None, None] - both - differ
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


def arrangements(most: int) -> np.ndarray:
    """The number of ways to choose ``both`` levels of one sort and ``differ`` of another among ``r`` levels.

    Returns ``[most + 1, most + 2, most + 2]`` by ``r``, ``both``, ``differ``: 0 where they do not fit, and hence in the
    last row and column, which index −1 refers to.
    """
    ways = np.zeros((most + 1, most + 2, most + 2), dtype=np.int64)
    ways[0, 0, 0] = 1
    for r in range(1, most + 1):
        ways[r] = ways[r - 1]
        ways[r, 1:] += ways[r - 1, :-1]
        ways[r, :, 1:] += ways[r - 1, :, :-1]
    return ways


def draw_edges(initiator: np.ndarray, levels: int, rng: np.random.Generator) -> np.ndarray:
    """Draw the edges of one Kronecker graph as positions ``[m, 2]``, every pair joined independently.

    The number of edges of a kind is binomial; given that number, they are random distinct pairs of the kind.
    The cost is O(levels · edges), not O(4^levels).
    """
    kinds = Kinds(np.array([levels]))
    probability = np.exp(kinds.log_probabilities(initiator[None]))[0]
    number = rng.binomial(kinds.pairs[0], probability * (kinds.pairs[0] > 0))  # [k + 1, k + 1]
    both, differ = np.nonzero(number)
    chosen = [
        rng.choice(kinds.pairs[0, i, j], number[i, j], replace=False, shuffle=False)
        for i, j in zip(both, differ, strict=True)
    ]
    repeats = number[both, differ]
    rank = np.concatenate([np.empty(0, dtype=np.int64), *chosen])
    return pairs_of_kind(np.repeat(both, repeats), np.repeat(differ, repeats), rank, levels)


def pairs_of_kind(both: np.ndarray, differ: np.ndarray, rank: np.ndarray, levels: int) -> np.ndarray:
    """The ``rank``-th pair of positions of a kind, counted from 0: ``[m, 2]``.

    Goes down the levels; at each, the rank determines which sort of level comes next, like the digits of a number.
    """
    ways = arrangements(levels)
    rank, ahead = np.divmod(rank, 2 ** (differ - 1))  # ahead: which end holds the 1 on each differing level
    first, second = np.zeros_like(rank), np.zeros_like(rank)
    met = np.zeros(len(rank), dtype=bool)  # whether the two positions already differ
    for below in range(levels - 1, -1, -1):
        zeros, ones = ways[below, both, differ], ways[below, both - 1, differ]
        is_one = (rank >= zeros) & (rank < zeros + ones)
        is_different = rank >= zeros + ones
        rank -= zeros * (rank >= zeros) + ones * is_different
        flipped = is_different & met & (ahead % 2 == 1)
        ahead = np.where(is_different & met, ahead // 2, ahead)
        first = 2 * first + (is_one | flipped)
        second = 2 * second + (is_one | (is_different & ~flipped))
        met |= is_different
        both, differ = both - is_one, differ - is_different
    return np.stack([first, second], axis=1)
