"""Regions and communities: the nodes of a predicted graph that belong together.

One wrong edge joins two components, so the usual ways weigh all edges between two groups of nodes.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from gln.errors import GLNError
from gln.evaluation.statistics import adjusted_rand, communities, component_labels
from gln.graphs import as_graph, make_graph
from gln.graphs.check import check_choice, check_real
from gln.graphs.record import Graph
from gln.graphs.regions import is_image, region_edges

Grouping = Literal["auto", "linkage", "louvain", "components"]
CUTS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)  # tried by :func:`choose_cut`


def clusters(
    graph: Any, method: Grouping = "auto", *, cut: float | None = None, resolution: float = 1.0, seed: int = 0
) -> Tensor:
    """The cluster of every node: int64 ``[n]``, numbered from 0 in the order of their first nodes.

    Args:
        graph: a prediction with ``edge_prob``, or any graph, whose edges then count as certain. A prediction with
            ``threshold=0`` holds every scored pair, which decides a little better than its likely edges alone.
        method: ``linkage`` joins the two clusters with the highest mean probability of the pairs between them, again
            and again, while it is at least ``cut``; in an image these are the pairs of pixels that share a side, a
            pair that is not an edge counting 0, elsewhere the edges. ``louvain`` finds communities of high modularity,
            with the probabilities as weights. ``components`` are what edges of at least ``cut`` connect. ``auto``:
            linkage for an image, otherwise louvain.
        cut: a probability, as :func:`choose_cut` finds it; default: 0.5 for linkage, every edge for components.
        resolution: above 1, louvain finds smaller communities, below 1 larger ones.
        seed: of louvain's order of nodes.
    """
    check_choice("clusters", "method", method, get_args(Grouping))
    check_real("clusters", "cut", cut or 0, 0, 1)
    check_real("clusters", "resolution", resolution, above=True)
    graph = as_graph(graph)
    if graph.edge_prob is None:
        graph.edge_prob = torch.ones(graph.num_edges)
    elif not ((graph.edge_prob >= 0) & (graph.edge_prob <= 1)).all():
        raise GLNError(
            "The graph has an edge_prob outside 0 to 1; expected probabilities, as gln.predict gives."
        )
    if method == "components":
        likely = graph.with_edges(graph.edge_index[:, graph.edge_prob >= (cut or 0)])
        return component_labels([likely])[0]
    if method == "linkage" or (method == "auto" and is_image(graph)):
        labels = _linked(graph.num_nodes, *_meeting(graph), 0.5 if cut is None else cut)
    else:
        labels = _communities(graph, resolution, seed)
    return _numbered(labels)


def choose_cut(
    true: Sequence[Any],
    predicted: Sequence[Any],
    method: Grouping = "components",
    cuts: Sequence[float] = CUTS,
) -> float:
    """Of ``cuts``, the one at which the clusters of validation graphs agree best with the components of the true ones.

    Args:
        true: the true graphs; an attribute ``region [n]`` or ``community [n]`` stands for their components.
        predicted: a prediction for each, with a threshold no higher than the lowest cut.
        method: ``components`` or ``linkage``.
    """
    labels = [_true_labels(as_graph(graph)) for graph in true]
    scores = {
        cut: adjusted_rand(labels, [clusters(graph, method, cut=cut) for graph in predicted]).mean().item()
        for cut in cuts
    }
    return max(scores, key=lambda cut: scores[cut])


def _true_labels(graph: Graph) -> Tensor:
    for name in ("region", "community"):
        if graph.get(name) is not None:
            return graph[name].long().cpu()
    return component_labels([graph])[0]


def _numbered(labels: np.ndarray) -> Tensor:
    """The same clusters, numbered in the order of their first nodes."""
    _, first, place = np.unique(labels, return_index=True, return_inverse=True)
    return torch.from_numpy(first.argsort().argsort()[place])


def _meeting(graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    """The pairs ``[m, 2]`` that tell whether two clusters belong together, and their probabilities ``[m]``."""
    edges, chances = graph.scored_once()
    if not is_image(graph):
        return edges, chances
    side = make_graph(pos=graph.pos).with_edges(region_edges(graph.pos.cpu(), torch.zeros(graph.num_nodes)))
    pairs, nodes = side.edges_once(), graph.num_nodes
    known = np.append(edges @ [nodes, 1], nodes**2)  # sorted, as edges are; the last is no pair
    wanted = pairs @ [nodes, 1]
    place = np.searchsorted(known, wanted)
    return pairs, np.where(known[place] == wanted, np.append(chances, 0)[place], 0)


def _linked(nodes: int, pairs: np.ndarray, chances: np.ndarray, cut: float) -> np.ndarray:
    """Average linkage over sparse pairs: the number of some node of its cluster for every node ``[nodes]``.

    Joining never raises a mean, so the order of joining does not matter beyond ties.
    """
    # The sum and the number of the pairs between two clusters.
    beside: list[dict[int, tuple[float, int]]] = [{} for _ in range(nodes)]
    queue = []
    for (a, b), chance in zip(pairs.tolist(), chances.tolist(), strict=True):
        beside[a][b] = beside[b][a] = (chance, 1)
        queue.append((-chance, a, b))
    heapq.heapify(queue)
    into = np.arange(nodes)
    while queue and -queue[0][0] >= cut:
        negative, a, b = heapq.heappop(queue)
        if into[a] != a or into[b] != b or beside[a][b][0] / beside[a][b][1] != -negative:
            continue  # one of them has grown since
        if len(beside[a]) < len(beside[b]):
            a, b = b, a
        into[b] = a
        del beside[a][b], beside[b][a]
        for other, (total, count) in beside[b].items():
            before = beside[a].get(other, (0.0, 0))
            now = (before[0] + total, before[1] + count)
            del beside[other][b]
            beside[a][other] = beside[other][a] = now
            heapq.heappush(queue, (-now[0] / now[1], a, other))
        beside[b].clear()
    while (into != into[into]).any():
        into = into[into]
    return into


def _communities(graph: Graph, resolution: float, seed: int) -> np.ndarray:
    import networkx as nx  # slow, and only this method needs it

    weighted = nx.Graph()
    weighted.add_nodes_from(range(graph.num_nodes))
    pairs, chances = graph.scored_once()
    weighted.add_weighted_edges_from(zip(*pairs.T.tolist(), chances.tolist(), strict=True))
    return communities(weighted, resolution, seed)
