"""Whether a graph is of a family: the rules by which published tables call a generated graph valid."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from scipy.special import gammaincc

from gln.evaluation.statistics import component_labels
from gln.graphs.convert import CheckedGraphs, to_networkx
from gln.graphs.record import Graph

# Of the stochastic block models of SPECTRE: sizes and number of blocks, chances of an edge in one and between two.
SIZES, BLOCKS = (20, 40), (2, 5)
INSIDE, BETWEEN = 0.3, 0.005
PASSES = 0.9  # the least mean p-value
RESOLUTION = 0.8  # of Louvain's method; at 1, it often divides a block
TINY = 1e-6  # keeps the published formulas finite

Valid = Callable[[Graph], bool]


def is_connected(graph: Graph) -> bool:
    """Whether every node can be reached from every other."""
    return len(component_labels(CheckedGraphs([graph]))[0].unique()) == 1


def is_planar(graph: Graph) -> bool:
    """Whether the graph is connected and can be drawn without crossings."""
    import networkx as nx

    few = graph.num_nodes < 3 or len(graph.edges_once()) <= 3 * graph.num_nodes - 6
    return few and is_connected(graph) and nx.check_planarity(to_networkx(graph))[0]


def is_tree(graph: Graph) -> bool:
    """Whether the graph is a tree."""
    return len(graph.edges_once()) == graph.num_nodes - 1 and is_connected(graph)


def is_sbm(graph: Graph) -> bool:
    """SPECTRE's test of a stochastic block model, with blocks found by Louvain's method.

    The published numbers are with blocks found by graph-tool, which is not a dependency: where a number is to be
    compared, find the blocks with it and call :func:`fits_blocks`.
    """
    import networkx as nx

    found = nx.community.louvain_communities(to_networkx(graph), resolution=RESOLUTION, seed=0)
    block = np.empty(graph.num_nodes, dtype=np.int64)
    for number, members in enumerate(found):
        block[list(members)] = number
    return fits_blocks(graph, block)


def fits_blocks(graph: Graph, block: np.ndarray) -> bool:
    """SPECTRE's test of a stochastic block model, given the block of every node ``[n]``.

    There must be 2 to 5 blocks of 20 to 40 nodes. The share of edges within every block, and between every two, is
    compared with that of the model by Wald's statistic, as published: without the number of pairs; and the mean of the
    p-values must exceed 0.9.
    """
    names, block = np.unique(block, return_inverse=True)
    sizes = np.bincount(block)
    if not BLOCKS[0] <= len(names) <= BLOCKS[1] or sizes.min() < SIZES[0] or sizes.max() > SIZES[1]:
        return False
    source, target = graph.edge_index.numpy(force=True)
    edges = np.zeros((len(names), len(names)))
    np.add.at(edges, (block[source], block[target]), 1)  # both directions
    pairs = np.outer(sizes, sizes) - np.diag(sizes)
    share = edges / (pairs + TINY)
    wanted = np.where(np.eye(len(names), dtype=bool), INSIDE, BETWEEN)
    wald = (share - wanted) ** 2 / (share * (1 - share) + TINY)
    return float(gammaincc(0.5, wald / 2).mean()) > PASSES  # the tail of χ² with one degree of freedom


#: What is valid, by the name of a family.
VALID: Mapping[str, Valid] = {"planar": is_planar, "tree": is_tree, "sbm": is_sbm}
