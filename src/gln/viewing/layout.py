"""Where to draw the nodes of a graph that have no positions."""

from __future__ import annotations

import networkx as nx
import numpy as np

from gln.graphs.convert import to_networkx
from gln.graphs.record import Graph

FEW = 200  # nodes; with more, all that needs every two of them takes long
ROUNDS = 12  # of making the lengths of edges alike


def laid_out(graph: Graph) -> np.ndarray:
    """Places ``[n, 2]``: without crossings if that can be, else by springs."""
    network = nx.Graph(to_networkx(graph))
    few = graph.num_nodes <= FEW
    if few and nx.is_biconnected(network):
        planar, drawing = nx.check_planarity(network)
        if planar:
            return _without_crossings(network, drawing)
    layout = nx.spring_layout(network, seed=0)
    if few and nx.is_connected(network):  # also by how many edges are between any two
        layout = nx.kamada_kawai_layout(network, pos=layout)
    return np.array([layout[node] for node in range(graph.num_nodes)])


def _without_crossings(network: nx.Graph, drawing: nx.PlanarEmbedding) -> np.ndarray:
    """Tutte's drawing: the longest face is a circle, and every other node is at the mean of its neighbours.

    The mean may be weighted; longer edges weigh more in every round, so that inner nodes do not crowd.
    """
    seen: set[tuple[int, int]] = set()
    faces = [drawing.traverse_face(*edge, seen) for edge in drawing.edges if edge not in seen]
    circle = np.array(max(faces, key=len))
    inner = np.setdiff1d(np.arange(len(network)), circle)
    angle = np.linspace(0, 2 * np.pi, len(circle), endpoint=False)
    where = np.zeros((len(network), 2))
    where[circle] = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    weight = nx.to_numpy_array(network, nodelist=range(len(network)), weight=None)
    for _ in range(ROUNDS):
        pull = np.diag(weight.sum(1)) - weight
        fixed = weight[np.ix_(inner, circle)] @ where[circle]
        where[inner] = np.linalg.solve(pull[np.ix_(inner, inner)], fixed)
        length = np.linalg.norm(where[:, None] - where, axis=-1)
        weight *= np.sqrt(length / length[weight > 0].mean() + 1e-6)
        weight /= weight.max()
    return where
