"""Variational EM for the mixed-membership stochastic blockmodel, many graphs at once, in float64.

Every node ``p`` of a graph has a membership in ``K`` roles, ``π_p ~ Dirichlet(α)``. For each pair, both nodes choose a
role, ``g ~ π_p`` and ``h ~ π_q``, and are joined with probability ``B_gh``. The posterior is approximated by
``π_p ~ Dirichlet(γ_p)`` and, for each pair, a table over ``(g, h)``. Airoldi et al. (2008) factorise that table into
one vector per node. Unfactorised, it has a closed form and a tighter bound, and only its sums are ever needed: O(n·K)
numbers instead of O(n²·K).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from gln.threads import at_once

Made = TypeVar("Made")

CHUNK = {"cpu": 2**18, "cuda": 2**26}  # pairs at a time: arrays roughly fit the cache, or keep a GPU busy
SURE = 1e-6  # edge probabilities between roles stay between this and 1 − this
LEAST_ALPHA, MOST_ALPHA = 0.01, 100.0  # below, exp(E log π) underflows float64; above, all nodes are alike
LLOYD = 20  # rounds of k-means
STILL = 1e-6  # stop when a round raises the bound by less than this share


@dataclass(frozen=True)
class SeenPairs:
    """The pairs of ``G`` graphs of up to ``N`` nodes that a fit looks at.

    Attributes:
        joined, parted: bool ``[G, N, N]``, symmetric: pairs with and without an edge. A pair that is neither is
            held out, a node with itself, or padding.
        mask: bool ``[G, N]``: True for real nodes.
    """

    joined: Tensor
    parted: Tensor
    mask: Tensor

    def chunks(self) -> Iterator[tuple[slice, SeenPairs]]:
        """A few graphs at a time, with their slice."""
        count, width = self.mask.shape
        share = max(1, CHUNK[self.mask.device.type] // width**2)
        for start in range(0, count, share):
            part = slice(start, start + share)
            yield part, SeenPairs(self.joined[part], self.parted[part], self.mask[part])

    def each(self, call: Callable[[slice, SeenPairs], Made]) -> list[Made]:
        """``call`` of every chunk, in order; on a CPU several at a time, with a thread each."""
        workers = torch.get_num_threads() if self.mask.device.type == "cpu" else 1
        chunks = list(self.chunks())
        if workers == 1 or len(chunks) == 1:
            return [call(*chunk) for chunk in chunks]
        return list(at_once(lambda chunk: call(*chunk), chunks, min(workers, len(chunks)), 1))

    @cached_property
    def partners(self) -> Tensor:
        """The number of nodes that each node is paired with ``[G, N]``."""
        return torch.cat([(chunk.joined | chunk.parted).sum(dim=-1) for _, chunk in self.chunks()])


@dataclass(frozen=True)
class Roles:
    """The fitted roles in ``G`` graphs.

    Attributes:
        alpha: spread of the memberships over all nodes ``[G, K]``.
        blocks: the probability of an edge between two roles ``[G, K, K]``, symmetric.
        gamma: the memberships of each node are Dirichlet(γ) ``[G, N, K]``.
    """

    alpha: Tensor
    blocks: Tensor
    gamma: Tensor

    @cached_property
    def logs(self) -> Tensor:
        """E log π ``[G, N, K]``."""
        return self.gamma.digamma() - self.gamma.sum(dim=-1, keepdim=True).digamma()

    @property
    def means(self) -> Tensor:
        """E π ``[G, N, K]``."""
        return self.gamma / self.gamma.sum(dim=-1, keepdim=True)


class Expected(NamedTuple):
    """Expectations over the roles chosen in all pairs."""

    bound: Tensor  # the evidence lower bound of every graph [G]
    chosen: Tensor  # how often each node chose each role [G, N, K]
    joined: Tensor  # how many ordered pairs with an edge chose each pair of roles [G, K, K]
    parted: Tensor  # the same for pairs without an edge [G, K, K]


def expect(pairs: SeenPairs, roles: Roles) -> Expected:
    """Sums over the optimal tables of all pairs, given ``roles``."""
    log_pi = roles.logs  # [G, N, K]
    top = log_pi.amax(dim=-1, keepdim=True)
    weight = (log_pi - top).exp()  # a node's likeliest role has weight 1, so no evidence vanishes
    sums = sum_pairs(pairs, weight, roles.blocks)
    outside = (pairs.partners * top.squeeze(-1)).sum(dim=-1)  # what the weights leave out
    chosen = torch.zeros_like(weight)
    counts = []
    for each, chance in ((sums.joined, roles.blocks), (sums.parted, 1 - roles.blocks)):
        chosen += weight * (each @ chance)
        counts.append(chance * (weight.mT @ each))
    return Expected(sums.logs + outside - divergence(roles, pairs.mask), chosen, *counts)


def divergence(roles: Roles, mask: Tensor) -> Tensor:
    """The divergence from the prior of the memberships to their posterior, summed over the nodes: ``[G]``."""
    alpha, gamma = roles.alpha[:, None], roles.gamma
    own = gamma.sum(dim=-1).lgamma() - gamma.lgamma().sum(dim=-1)
    prior = alpha.sum(dim=-1).lgamma() - alpha.lgamma().sum(dim=-1)
    each = own - prior + ((gamma - alpha) * roles.logs).sum(dim=-1)  # [G, N]
    return (each * mask).sum(dim=-1)


def update(pairs: SeenPairs, roles: Roles, pooled: bool) -> tuple[Roles, Tensor]:
    """One round of coordinate ascent, and the bound ``[G]`` of the given ``roles``, which never falls over rounds."""
    bound, chosen, joined, parted = expect(pairs, roles)
    seen = _share(joined + parted, pooled)
    blocks = torch.where(seen > 0, _share(joined, pooled) / seen, roles.blocks).clamp(SURE, 1 - SURE)
    found = Roles(roles.alpha, (blocks + blocks.mT) / 2, roles.alpha[:, None] + chosen)
    mask = pairs.mask[..., None]
    total, count = (found.logs * mask).sum(dim=1), mask.sum(dim=1)  # [G, K], [G, 1]
    # Minka's fixed-point step towards the α for which E log π has this mean; it never overshoots.
    wanted = roles.alpha.sum(dim=-1, keepdim=True).digamma() + _share(total, pooled) / _share(count, pooled)
    alpha = inverse_digamma(wanted).clamp(LEAST_ALPHA, MOST_ALPHA)
    return replace(found, alpha=alpha), bound


def _share(values: Tensor, pooled: bool) -> Tensor:
    """Sums ``[G, …]``: over all graphs and equal for each, or each graph's own."""
    return values.sum(dim=0, keepdim=True).expand_as(values) if pooled else values


def inverse_digamma(value: Tensor) -> Tensor:
    """The x > 0 whose digamma is ``value``, by Newton's method from Minka's start."""
    x = torch.where(value >= -2.22, value.exp() + 0.5, -1 / (value - torch.digamma(torch.ones(()))))
    for _ in range(5):
        x = x - (x.digamma() - value) / torch.polygamma(1, x)
    return x


def start(pairs: SeenPairs, points: Tensor, count: int, pooled: bool) -> Roles:
    """Initial roles from a clustering of the ``points`` of each graph (see :func:`fit_roles`); deterministic."""
    labels = torch.cat(pairs.each(lambda part, chunk: spectral_labels(chunk, points[part], count)))
    sure = one_hot(labels, count).double()  # [G, N, K]
    weight = (0.9 * sure + 0.1 / count) * pairs.mask[..., None]
    joined, parted = (
        torch.cat([weight[part].mT @ looked_at[part].double() @ weight[part] for part, _ in pairs.chunks()])
        for looked_at in (pairs.joined, pairs.parted)
    )
    blocks = (_share(joined, pooled) + 0.5) / (_share(joined + parted, pooled) + 1)
    alpha = torch.full((len(labels), count), 1 / count, dtype=torch.float64, device=labels.device)
    return Roles(alpha, blocks, alpha[:, None] + weight * pairs.partners[..., None])


def fit_roles(
    pairs: SeenPairs, points: Tensor, count: int, *, pooled: bool, rounds: int, tick: Callable[[], object]
) -> tuple[Roles, Tensor]:
    """``count`` roles by variational EM, and the bound per round ``[≤ rounds, G]``; stops once the bound settles.

    ``points`` are those of :func:`spectral_points`, for ``count`` roles or more.
    """
    roles, bounds = start(pairs, points, count, pooled), list[torch.Tensor]()
    for _ in range(rounds):
        roles, bound = update(pairs, roles, pooled)
        bounds.append(bound)
        tick()
        if len(bounds) > 1 and (bound - bounds[-2]).sum() < STILL * bound.sum().abs():
            break
    return roles, torch.stack(bounds)


def log_likelihoods(pairs: SeenPairs, roles: Roles) -> Tensor:
    """The log-likelihood of every pair under the posterior means of the memberships: ``[H]``."""
    terms, means = [], roles.means
    for part, chunk in pairs.chunks():
        pi = means[part]
        chance = pi @ roles.blocks[part] @ pi.mT  # [G, N, N]
        each = torch.where(chunk.joined, chance.log(), torch.log1p(-chance))
        terms.append(each[chunk.joined | chunk.parted])
    return torch.cat(terms)


def spectral_points(pairs: SeenPairs, most: int) -> Tensor:
    """Up to ``most`` leading eigenvectors of each graph: ``[G, N, ≤ most]``, by falling absolute eigenvalue."""
    return torch.cat(pairs.each(lambda _, chunk: _spectral_points(chunk.joined.double(), chunk.mask, most)))


def _spectral_points(adjacency: Tensor, mask: Tensor, most: int) -> Tensor:
    degree = adjacency.sum(dim=-1)  # [G, N]
    # Raise degrees by their mean, or nodes of degree 1 would get eigenvectors of their own.
    raised = degree + degree.sum(dim=-1, keepdim=True) / mask.sum(dim=-1, keepdim=True)
    scale = raised.clamp(min=1e-9).rsqrt()
    value, vector = torch.linalg.eigh(adjacency * scale[:, :, None] * scale[:, None, :])
    most = min(most, value.shape[-1])
    size, leading = value.abs().topk(most, dim=-1)  # λ < 0: groups that avoid themselves
    return vector.gather(-1, leading[:, None].expand(-1, vector.shape[1], -1)) * size[:, None]


def spectral_labels(pairs: SeenPairs, points: Tensor, count: int) -> Tensor:
    """One of ``count`` groups for every node ``[G, N]``, by k-means on the first ``count`` spectral ``points``.

    The groups of each graph are numbered by internal density, densest first, so that group 0 means the same in all
    graphs. A graph with fewer nodes than groups uses fewer groups.
    """
    near = k_means(points[..., :count], pairs.mask, count)
    group = one_hot(near, count).double() * pairs.mask[..., None]
    inside = (group.mT @ pairs.joined.double() @ group).diagonal(dim1=1, dim2=2)
    possible = inside + (group.mT @ pairs.parted.double() @ group).diagonal(dim1=1, dim2=2)
    rank = (inside / possible.clamp(min=1)).argsort(dim=-1, descending=True, stable=True).argsort(dim=-1)
    return (group * rank[:, None]).sum(dim=-1).long()


def k_means(points: Tensor, mask: Tensor, count: int) -> Tensor:
    """The nearest of ``count`` centres for each of ``points [G, N, D]``: ``[G, N]``; centres start far apart."""
    graphs = torch.arange(len(points), device=points.device)
    mean = (points * mask[..., None]).sum(dim=1) / mask.sum(dim=1, keepdim=True)
    far = (points - mean[:, None]).square().sum(dim=-1)
    centres = points.new_empty(len(points), 0, points.shape[-1])
    for _ in range(count):
        new = points[graphs, far.masked_fill(~mask, -1).argmax(dim=1)]  # [G, D]
        distance = (points - new[:, None]).square().sum(dim=-1)
        far = distance if centres.shape[1] == 0 else torch.minimum(far, distance)
        centres = torch.cat([centres, new[:, None]], dim=1)
    for _ in range(LLOYD):
        near = torch.cdist(points, centres).argmin(dim=-1)  # [G, N]
        member = one_hot(near, count).to(points) * mask[..., None]
        filled = member.sum(dim=1)[..., None]  # [G, K, 1]
        centres = torch.where(filled > 0, member.mT @ points / filled.clamp(min=1), centres)
    return torch.cdist(points, centres).argmin(dim=-1)


class Sums(NamedTuple):
    """Sums over pairs with evidence ``e_pq = weight_p · chance · weight_q``, with the chance of an edge, or of none."""

    logs: Tensor  # Σ log e_pq over the pairs of a graph, once each [G]
    joined: Tensor  # Σ_q weight_q / e_pq over the q joined to p [G, N, K]
    parted: Tensor  # the same over those not joined [G, N, K]


def sum_pairs(pairs: SeenPairs, weight: Tensor, blocks: Tensor) -> Sums:
    """Sums over all pairs.

    Args:
        pairs: the pairs of ``G`` graphs.
        weight: weight of every node's roles ``[G, N, K]``; the largest of each node is 1.
        blocks: the probability of an edge between two roles ``[G, K, K]``, symmetric, above 0 and below 1.
    """

    def of_chunk(part: slice, chunk: SeenPairs) -> tuple[Tensor, Tensor, Tensor]:
        own, chance = weight[part], blocks[part]
        if_joined, if_parted = (own @ each @ own.mT for each in (chance, 1 - chance))  # [G, N, N]
        evidence = if_joined.where(chunk.joined, if_parted).masked_fill(~(chunk.joined | chunk.parted), 1)
        inverse = evidence.reciprocal()
        joined, parted = ((inverse * seen) @ own for seen in (chunk.joined, chunk.parted))
        return evidence.log().sum(dim=(1, 2)) / 2, joined, parted

    return Sums(*map(torch.cat, zip(*pairs.each(of_chunk), strict=True)))
