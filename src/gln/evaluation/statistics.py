"""Statistics of many graphs at once, and their connected components: in an image, as the paper has it, its segments.

Functions take graphs of any kind and size (see :func:`gln.graphs.as_graphs`) and return one tensor per graph, on
``device`` or, by default, where the graphs are. A result does not depend on the other graphs. Types and weights are not
looked at, and directed edges are taken without their direction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg
import torch
from torch import Tensor

from gln.errors import GLNError
from gln.evaluation.counting import Blocks, ByDegree, Device, check_device, measure
from gln.evaluation.metrics import Scores
from gln.graphs import as_graphs
from gln.graphs.convert import CheckedGraphs, as_graph_pairs, components
from gln.graphs.record import Graph
from gln.threads import at_most

if TYPE_CHECKING:
    import networkx as nx

EIGEN_ENTRIES = 2**21  # matrix entries that are decomposed together; a single matrix may have more
SHARED_FROM = 512  # rows from which the work on a matrix is long enough to be shared between threads


def degrees(graphs: Iterable[Any], device: Device = None) -> list[Tensor]:
    """Degree of every node: int64 ``[n]`` per graph."""
    return measure(graphs, Blocks.degrees, device)


def clustering(graphs: Iterable[Any], device: Device = None) -> list[Tensor]:
    """Share of each node's pairs of neighbours that are joined, 0 below degree 2: float64 ``[n]`` per graph."""

    def shares(blocks: Blocks) -> Tensor:
        degree = blocks.degrees()
        pairs = degree * (degree - 1) // 2
        triangles = blocks.sum_edges(ByDegree(blocks).triangles()) // 2
        return triangles.double() / pairs.clamp(min=1)

    return measure(graphs, shares, device)


def laplacian_spectrum(graphs: Iterable[Any], device: Device = None) -> list[Tensor]:
    """Ascending eigenvalues of ``I − D^-½ A D^-½``, in [0, 2]: float64 ``[n]`` per graph.

    The row of an isolated node is zero, as in networkx. Time is O(n³); memory is 8 n² bytes for the largest
    graph, and twice that on a GPU.
    """
    return _of_laplacians(graphs, device, lambda laplacians: _eigenvalues(laplacians).clamp_(0, 2))


def filtered(
    graphs: Iterable[Any], filters: Callable[[Tensor], Tensor], device: Device = None
) -> list[Tensor]:
    """``Σ_j F_ij²`` of every filter ``F = U f(Λ) Uᵀ`` of the Laplacian ``U Λ Uᵀ``: float64 ``[filters, n]`` per graph.

    ``filters`` maps eigenvalues ``[B, n]`` to what each filter makes of them ``[filters, B, n]``.
    """

    def energy(laplacians: Tensor) -> Tensor:
        values, vectors = torch.linalg.eigh(laplacians)
        return torch.einsum("bik,fbk->bfi", vectors.square(), filters(values.clamp(0, 2)).square())

    return _of_laplacians(graphs, device, energy)


def _of_laplacians(
    graphs: Iterable[Any], device: Device, compute: Callable[[Tensor], Tensor]
) -> list[Tensor]:
    """What ``compute`` makes of the normalised Laplacians ``[B, n, n]`` of graphs of one size, for each graph."""
    graphs, device = as_graphs(graphs, kinds=False), check_device(device)
    same_size: dict[int, list[int]] = defaultdict(list)  # no padding, which would add eigenvalues
    for i, graph in enumerate(graphs):
        same_size[graph.num_nodes].append(i)
    found: dict[int, Tensor] = {}
    for size, members in same_size.items():
        step = max(1, EIGEN_ENTRIES // size**2)
        for batch in (members[start : start + step] for start in range(0, len(members), step)):
            with nullcontext() if size >= SHARED_FROM else at_most(1):
                laplacians = _laplacians(Blocks.of([graphs[i] for i in batch], device))  # [B, n, n]
                found.update(zip(batch, compute(laplacians), strict=True))
    return [found[i] for i in range(len(graphs))]


def _laplacians(blocks: Blocks) -> Tensor:
    """Normalised Laplacians of ``B`` graphs of ``n`` nodes each: float64 ``[B, n, n]``."""
    count, size = len(blocks.nodes), blocks.nodes[0]
    degree = blocks.degrees()
    scale = degree.double().clamp(min=1).rsqrt()
    source, target = blocks.edges
    # Row r of the blocks is row r % n of its graph: an edge only needs its column within the graph.
    out = torch.zeros(count * size, size, dtype=torch.float64, device=degree.device)
    out[source, target % size] = -scale[source] * scale[target]
    node = torch.arange(count * size, device=degree.device)
    out[node, node % size] = (degree > 0).double()
    return out.view(count, size, size)


def _eigenvalues(matrices: Tensor) -> Tensor:
    """Ascending eigenvalues ``[B, n]`` of symmetric matrices ``[B, n, n]``, which may be overwritten."""
    if matrices.numel() <= EIGEN_ENTRIES or matrices.is_cuda:
        return torch.linalg.eigvalsh(matrices)
    # Torch would copy a matrix that may fill the memory; LAPACK can work on its transpose in place.
    values = scipy.linalg.eigvalsh(matrices[0].numpy().T, overwrite_a=True, check_finite=False)
    return torch.from_numpy(values)[None]


def component_labels(graphs: Iterable[Any]) -> list[Tensor]:
    """The component number of every node: int64 ``[n]`` per graph of any kind; no two graphs share a number.

    Components are numbered in the order of their first nodes.
    """

    def numbered(blocks: Blocks) -> Tensor:
        return torch.from_numpy(components(blocks.edges.T.numpy(), sum(blocks.nodes))).long()

    return measure(graphs, numbered, "cpu")


def communities(graph: nx.Graph, resolution: float, seed: int) -> np.ndarray:
    """The community of every node by Louvain's method: int64 ``[n]``; nodes are named 0 … n − 1."""
    from networkx.algorithms.community import louvain_communities  # slow, and few need it

    found = np.empty(len(graph), dtype=np.int64)
    for number, members in enumerate(louvain_communities(graph, resolution=resolution, seed=seed)):
        found[list(members)] = number
    return found


def largest_components(graphs: Iterable[Any]) -> list[Graph]:
    """The largest component of each graph, structure only; ties go to the one with the first node."""
    out, graphs = [], CheckedGraphs(as_graphs(graphs, kinds=False))
    for graph, label in zip(graphs, component_labels(graphs), strict=True):
        graph = graph.undirected()
        label = (label - label.min()).to(graph.edge_index.device)
        keep = label == label.bincount().argmax()
        number = keep.cumsum(0) - 1  # the new number of every kept node
        inside = keep[graph.edge_index[0]]  # an edge has both ends in one component
        out.append(Graph(edge_index=number[graph.edge_index[:, inside]], num_nodes=int(keep.sum())))
    return out


def segmentation_scores(true: Iterable[Any], predicted: Iterable[Any]) -> Scores:
    """Adjusted Rand index of the predicted components, mean over graphs.

    ``ari_components`` compares them with the components of the true graph, ``ari_regions`` with the whole
    numbers in the attribute ``region [n]`` of the true graphs, if they have it.

    Args:
        true: the true graphs, of any kind.
        predicted: one graph per true graph, on the same nodes.
    """
    truths, guesses = as_graph_pairs(true, predicted)
    components = component_labels(guesses)
    scores = {"ari_components": adjusted_rand(component_labels(truths), components)}
    regions = [graph.get("region") for graph in truths]
    if any(region is not None for region in regions):
        numbers = [_region(graph, f"true[{index}]") for index, graph in enumerate(truths)]
        scores["ari_regions"] = adjusted_rand(numbers, components)
    return Scores({name: value.mean() for name, value in scores.items()}, notes=[f"{len(truths)} graphs"])


def _region(graph: Graph, what: str) -> Tensor:
    """The attribute ``region`` as int64 ``[n]`` on the CPU, checked."""
    if (value := graph.get("region")) is None:
        raise GLNError(f"{what} has no region; expected a number for each of its nodes.")
    with suppress(TypeError, ValueError, RuntimeError):
        region = torch.as_tensor(value).cpu()
        if region.shape == (graph.num_nodes,) and (region.long() == region).all():
            return region.long()
    raise GLNError(f"{what} has the region {str(value)[:60]}; expected a whole number for each of its nodes.")


def adjusted_rand(first: Sequence[Tensor], second: Sequence[Tensor]) -> Tensor:
    """The adjusted Rand index of two labellings ``[n]`` of the nodes of each of ``G`` graphs: float64 ``[G]``.

    It is 1 if both put all nodes together, or if both keep all nodes apart.
    """
    graph = torch.repeat_interleave(torch.tensor([len(labels) for labels in first]))  # [n]: which graph
    cells = torch.stack([graph, torch.cat(list(first)), torch.cat(list(second))])

    def together(*rows: int) -> Tensor:
        """The number of node pairs of each graph that agree in these rows."""
        kinds, sizes = cells[list(rows)].unique(dim=1, return_counts=True)
        pairs = torch.zeros(len(first), dtype=torch.float64)
        return pairs.index_add(0, kinds[0], sizes.double() * (sizes - 1) / 2)

    both, one, other, every = together(0, 1, 2), together(0, 1), together(0, 2), together(0)
    expected = one * other / every.clamp(min=1)
    spread = (one + other) / 2 - expected
    return torch.where(spread > 0, (both - expected) / spread.where(spread > 0, 1), 1.0)
