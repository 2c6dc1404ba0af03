"""The starting point of the blockmodel: a spectral clustering of the nodes, many graphs at once."""

from __future__ import annotations

import torch
from torch import Tensor

from gln.baselines.mmsb_pairs import Pairs

LLOYD = 20  # rounds of k-means


def spectral_points(pairs: Pairs, most: int) -> Tensor:
    """Up to ``most`` leading eigenvectors of each graph: ``[G, N, ≤ most]``, by falling absolute eigenvalue."""
    return torch.cat(
        [_spectral_points(chunk.joined.double(), chunk.mask, most) for _, chunk in pairs.chunks()]
    )


def _spectral_points(adjacency: Tensor, mask: Tensor, most: int) -> Tensor:
    degree = adjacency.sum(dim=-1)  # [G, N]
    # Raise degrees by their mean, or nodes of degree 1 would get eigenvectors of their own.
    raised = degree + degree.sum(dim=-1, keepdim=True) / mask.sum(dim=-1, keepdim=True)
    scale = raised.clamp(min=1e-9).rsqrt()
    value, vector = torch.linalg.eigh(adjacency * scale[:, :, None] * scale[:, None, :])
    most = min(most, value.shape[-1])
    size, leading = value.abs().topk(most, dim=-1)  # λ < 0: groups that avoid themselves
    return vector.gather(-1, leading[:, None].expand(-1, vector.shape[1], -1)) * size[:, None]


def spectral_labels(pairs: Pairs, points: Tensor, count: int) -> Tensor:
    """One of ``count`` groups for every node ``[G, N]``, by k-means on the first ``count`` spectral ``points``.

    The groups of each graph are numbered by internal density, densest first, so that group 0 means the same in all
    graphs. A graph with fewer nodes than groups uses fewer groups.
    """
    near = k_means(points[..., :count], pairs.mask, count)
    group = torch.nn.functional.one_hot(near, count).double() * pairs.mask[..., None]
    inside = (group.mT @ pairs.joined.double() @ group).diagonal(dim1=1, dim2=2)
    possible = inside + (group.mT @ pairs.parted.double() @ group).diagonal(dim1=1, dim2=2)
    rank = (inside / possible.clamp(min=1)).argsort(dim=-1, descending=True, stable=True).argsort(dim=-1)
    return (group * rank[:, None]).sum(dim=-1).long()


def k_means(points: Tensor, mask: Tensor, count: int) -> Tensor:
    """The nearest of ``count`` centres for each of ``points [G, N, D]``: ``[G, N]``; centres start far apart."""
    graphs = torch.arange(len(points))
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
        member = torch.nn.functional.one_hot(near, count).to(points) * mask[..., None]
        filled = member.sum(dim=1)[..., None]  # [G, K, 1]
        centres = torch.where(filled > 0, member.mT @ points / filled.clamp(min=1), centres)
    return torch.cdist(points, centres).argmin(dim=-1)
