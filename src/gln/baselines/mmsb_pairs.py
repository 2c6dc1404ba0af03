"""The pairs of many graphs that the blockmodel looks at, and the sums that each round takes over them.

The sums are one compiled loop that holds a row of one graph.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gln.ops.loops import Kernel, compiled, spread

CHUNK = 2**18  # pairs at a time, so that arrays roughly fit the processor's cache
WIDEST = 700.0  # exp(± this) fits float64


@dataclass(frozen=True)
class Pairs:
    """The pairs of ``G`` graphs of up to ``N`` nodes that a fit looks at.

    Attributes:
        joined, parted: bool ``[G, N, N]``, symmetric: pairs with and without an edge. A pair that is neither is
            held out, a node with itself, or padding.
        mask: bool ``[G, N]``: True for real nodes.
    """

    joined: Tensor
    parted: Tensor
    mask: Tensor

    def chunks(self) -> Iterator[tuple[slice, Pairs]]:
        """A few graphs at a time, with their slice."""
        count, width = self.mask.shape
        share = max(1, CHUNK // width**2)
        for start in range(0, count, share):
            part = slice(start, start + share)
            yield part, Pairs(self.joined[part], self.parted[part], self.mask[part])

    @cached_property
    def partners(self) -> Tensor:
        """The number of nodes that each node is paired with ``[G, N]``."""
        return torch.cat([(chunk.joined | chunk.parted).sum(dim=-1) for _, chunk in self.chunks()])

    @cached_property
    def edges(self) -> tuple[np.ndarray, np.ndarray]:
        """The joined pairs, once each: offsets of the graphs ``[G + 1]``, and both nodes ``[E, 2]``."""
        found = [(part.start, chunk.joined.triu(1).nonzero()) for part, chunk in self.chunks()]
        graph = torch.cat([ends[:, 0] + begin for begin, ends in found])
        first = torch.searchsorted(graph, torch.arange(len(self.mask) + 1))
        return first.numpy(), torch.cat([ends[:, 1:] for _, ends in found]).numpy()


class Sums(NamedTuple):
    """Sums over pairs with evidence ``e_pq = weight_p · chance · weight_q``, with the chance of an edge, or of none."""

    logs: Tensor  # Σ log e_pq over the pairs of a graph, once each [G]
    joined: Tensor  # Σ_q weight_q / e_pq over the q joined to p [G, N, K]
    parted: Tensor  # the same over those not joined [G, N, K]


def sum_pairs(pairs: Pairs, weight: Tensor, blocks: Tensor) -> Sums:
    """Sums over all pairs.

    Args:
        pairs: the pairs of ``G`` graphs.
        weight: weight of every node's roles ``[G, N, K]``; the largest of each node is 1.
        blocks: the probability of an edge between two roles ``[G, K, K]``, symmetric, above 0 and below 1.
    """
    chances = (blocks, 1 - blocks)
    # e_pq is a sum of K² terms, each at most 1; the term of the two largest weights is a chance. So e_pq lies between
    # the least chance and K², and this many factors can be multiplied within float64 before taking one logarithm.
    extreme = max(2 * math.log(weight.shape[-1]), *(-math.log(float(chance.min())) for chance in chances))
    factors = max(1, int(WIDEST / extreme))
    by_role = weight.mT.contiguous()  # [G, K, N]
    others = [(weight @ chance).numpy() for chance in chances]
    logs, joined, parted = weight.new_empty(len(weight)), torch.zeros_like(weight), torch.zeros_like(by_role)
    arrays = (values.contiguous().numpy() for values in (pairs.parted, weight, by_role))
    out = (values.numpy() for values in (logs, joined, parted))
    spread(_compiled_kernel(), 0, len(weight), factors, *pairs.edges, *arrays, *others, *out)
    return Sums(logs, joined, parted.mT)


@cache
def _compiled_kernel() -> Kernel:
    return compiled(_kernel)


def _kernel(  # type: ignore[no-untyped-def]
    begin, end, factors, first, edges, parted, weight, by_role, if_joined, if_parted, logs, near, far
):
    """The graphs ``begin : end``. Nearly all pairs are parted: long loops over ``q`` for vector instructions.

    ``if_joined`` and ``if_parted`` ``[G, N, K]``: ``weight · chance``. ``near`` ``[G, N, K]`` and ``far`` ``[G, K, N]``
    start at zero; with ``logs`` they receive the sums.
    """
    nodes, roles = weight.shape[1:]
    product, inverse = np.empty(nodes), np.empty(nodes)
    for g in range(begin, end):
        total = 0.0
        product[:] = 1.0
        for p in range(1, nodes):
            for q in range(p):
                inverse[q] = if_parted[g, p, 0] * by_role[g, 0, q]
            for k in range(1, roles):
                other = if_parted[g, p, k]
                for q in range(p):
                    inverse[q] += other * by_role[g, k, q]
            seen = parted[g, p]
            for q in range(p):
                product[q] *= inverse[q] if seen[q] else 1.0
                inverse[q] = seen[q] / inverse[q]
            for k in range(roles):
                own, summed = weight[g, p, k], 0.0
                for q in range(p):
                    summed += inverse[q] * by_role[g, k, q]
                    far[g, k, q] += inverse[q] * own
                far[g, k, p] += summed
            if p % factors == 0 or p == nodes - 1:
                for q in range(p):
                    total += math.log(product[q])
                    product[q] = 1.0
        run = 1.0
        for m in range(first[g], first[g + 1]):
            p, q = edges[m]
            evidence = 0.0
            for k in range(roles):
                evidence += if_joined[g, p, k] * weight[g, q, k]
            run *= evidence
            if (m - first[g]) % factors == factors - 1:
                total += math.log(run)
                run = 1.0
            for k in range(roles):
                near[g, p, k] += weight[g, q, k] / evidence
                near[g, q, k] += weight[g, p, k] / evidence
        logs[g] = total + math.log(run)
