"""Kronecker graphs as a distribution: how likely a graph is, where that climbs, and drawing from it.

The nodes of a Kronecker graph of ``k`` levels sit at the positions 0 … 2ᵏ − 1. Two positions are joined with a
probability that multiplies one entry of the initiator ``[[a, b], [b, c]]`` per bit: ``a`` where both bits are 0, ``b``
where they differ, ``c`` where both are 1. So it depends on two counts only, the **kind** of a pair: on how many levels
*both* bits are 1 and on how many they *differ*. There are 4ᵏ pairs but few kinds, and all pairs of a kind are alike:
the likelihood and its gradient are short exact sums (Leskovec et al. 2010 expand them by Taylor), and drawing is exact
without looking at every pair (as Ramani, Eikmeier and Gleich 2019 hop over them).
"""

from __future__ import annotations

import numpy as np

# The entries of an initiator stay between: no pair is impossible, none is certain.
LEAST, MOST = 1e-4, 1 - 1e-4


class Kinds:
    """The kinds of pairs in ``G`` Kronecker graphs; ``K`` is the most levels that one of them has.

    Args:
        levels: of every graph ``[G]``, at least 1.

    Attributes:
        pairs: how many unordered pairs are of each kind ``[G, K + 1, K + 1]``, by ``both`` and ``differ``.
        powers: how often a pair multiplies ``a``, ``b`` and ``c`` ``[G, K + 1, K + 1, 3]``; 0 where no pair is.
    """

    def __init__(self, levels: np.ndarray) -> None:
        most = int(levels.max())
        both, differ = np.indices((most + 1, most + 1))
        # Every differing level can lie two ways; an unordered pair fixes the first of them.
        ways = arrangements(most)[levels, : most + 1, : most + 1]
        self.pairs = np.where(differ > 0, ways * 2 ** np.maximum(differ - 1, 0), 0)
        neither = levels[:, None, None] - both - differ
        powers = np.stack(np.broadcast_arrays(neither, differ, both), axis=-1)
        self.powers = powers * (self.pairs > 0)[..., None]

    def log_probabilities(self, initiator: np.ndarray) -> np.ndarray:
        """log P of a pair of each kind ``[G, K + 1, K + 1]``, for initiators ``[G, 3]``; log ½ where no pair is."""
        logs = np.einsum("gijc,gc->gij", self.powers, np.log(initiator))
        return np.where(self.pairs > 0, logs, np.log(0.5))

    def log_odds(self, initiator: np.ndarray) -> np.ndarray:
        """log P − log(1 − P) of each kind ``[G, K + 1, K + 1]``."""
        logs = self.log_probabilities(initiator)
        return logs - np.log1p(-np.exp(logs))

    def log_likelihood(self, initiator: np.ndarray, edges: np.ndarray) -> np.ndarray:
        """log P of graphs with so many ``edges`` of each kind ``[G, K + 1, K + 1]``: ``[G]``."""
        logs = self.log_probabilities(initiator)
        return (edges * logs + (self.pairs - edges) * np.log1p(-np.exp(logs))).sum(axis=(1, 2))

    def gradient(self, initiator: np.ndarray, edges: np.ndarray) -> np.ndarray:
        """Of :meth:`log_likelihood`, in the logarithms of the initiator: ``[G, 3]``."""
        p = np.exp(self.log_probabilities(initiator))
        return np.einsum("gij,gijc->gc", (edges - self.pairs * p) / (1 - p), self.powers)

    def information(self, initiator: np.ndarray) -> np.ndarray:
        """Fisher's information on the logarithms of the initiator: ``[G, 3, 3]``."""
        p = np.exp(self.log_probabilities(initiator))
        return np.einsum("gij,gijc,gijd->gcd", self.pairs * p / (1 - p), self.powers, self.powers)


def arrangements(most: int) -> np.ndarray:
    """In how many ways ``r`` levels hold ``both`` levels of one sort and ``differ`` of another.

    Returns ``[most + 1, most + 2, most + 2]`` by ``r``, ``both``, ``differ``: 0 where they do not fit, and so in the
    last row and column, which the index −1 means.
    """
    ways = np.zeros((most + 1, most + 2, most + 2), dtype=np.int64)
    ways[0, 0, 0] = 1
    for r in range(1, most + 1):
        ways[r] = ways[r - 1]
        ways[r, 1:] += ways[r - 1, :-1]
        ways[r, :, 1:] += ways[r - 1, :, :-1]
    return ways


def draw_edges(initiator: np.ndarray, levels: int, rng: np.random.Generator) -> np.ndarray:
    """The edges of one Kronecker graph as positions ``[m, 2]``, every pair joined independently.

    The edges of a kind are binomial in number and, given their number, any distinct pairs of that kind.
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
    """The ``rank``-th pair of positions of a kind, ``rank`` from 0 to below the number of them: ``[m, 2]``.

    Goes down the levels; on each, the rank says which sort of level comes next, as digits say a number.
    """
    ways = arrangements(levels)
    rank, ahead = np.divmod(rank, 2 ** (differ - 1))  # ahead: which ends hold the 1 on differing levels
    first, second = np.zeros_like(rank), np.zeros_like(rank)
    met = np.zeros(len(rank), dtype=bool)  # whether the two positions differ already
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
