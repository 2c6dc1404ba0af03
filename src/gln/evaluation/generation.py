"""How published tables judge a generator of graphs: valid, unique and novel graphs, and MMD against training graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from scipy.special import gammaincc

from gln.errors import GLNError
from gln.evaluation.counting import Device
from gln.evaluation.edges import Ends, students, wilsons
from gln.evaluation.metrics import Scores
from gln.evaluation.mmd import DESCRIPTORS, Kernel, estimate
from gln.evaluation.novelty import as_undirected, tell_apart
from gln.evaluation.statistics import communities, component_labels
from gln.families.published import BETWEEN, BLOCKS, INSIDE, SIZES
from gln.graphs.convert import CheckedGraphs, to_networkx
from gln.graphs.record import Graph

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
    return fits_blocks(graph, communities(to_networkx(graph), RESOLUTION, seed=0))


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


TABLES = ("degree", "clustering", "orbit", "spectrum", "wavelet")
GROUP = 40  # graphs that the tables compare with the test graphs
DIGITS = 4  # of the training graphs' MMD² in the ratio, as published; one of 0, as of trees' clustering, is left out


def generation_scores(
    train: Iterable[Any],
    test: Iterable[Any],
    made: Iterable[Any],
    valid: Valid | Sequence[bool] | None = None,
    *,
    group: int = GROUP,
    device: Device = None,
) -> Scores:
    """The scores of published tables (SPECTRE, DiGress, DeFoG, …), with intervals.

    ====================  ======================================================================================
    ``valid``             the share of graphs that are valid
    ``uniqueness``        distinct graphs by graphs, and ``novelty``: as in :func:`gln.novelty`
    ``vun``               distinct graphs that are valid and new, by graphs
    ``mmd_degree``, …     MMD² to the test graphs in groups of ``group``: Gaussian of total variation, biased
    ``mmd_ratio``         the mean over descriptors of this MMD² by that of the training graphs; 1 is perfect
    ====================  ======================================================================================

    Args:
        train: the graphs that the generator learned from.
        test: those that it is compared with.
        made: what it generated; graphs beyond the last whole group do not enter the MMD².
        valid: whether a graph is valid, or whether each of ``made`` is; ``None``: there is no rule.
        group: graphs compared with the test graphs at a time: a biased MMD² depends on how many there are.
        device: where to compute.
    """
    known, reference, graphs = (
        as_undirected(some, name) for some, name in ((train, "train"), (test, "test"), (made, "made"))
    )
    if len(graphs) < group:
        raise GLNError(f"Got {len(graphs)} generated graphs; expected at least {group}, or a smaller group.")
    scores, ends, notes = _distances(known, reference, graphs, group, device)
    shares, new, hard = tell_apart(known, graphs)
    if valid is not None:
        fit = [valid(graph) for graph in graphs] if callable(valid) else list(valid)
        shares = {"valid": float(np.mean(fit))} | shares
        shares["vun"] = sum(fit[kind] for kind in new) / len(graphs)
    ends |= {name: wilsons(share, len(graphs)) for name, share in shares.items()}
    return Scores(shares | scores, [*notes, *hard], ends)


def _distances(
    train: CheckedGraphs, test: CheckedGraphs, made: CheckedGraphs, group: int, device: Device
) -> tuple[dict[str, float], dict[str, Ends], list[str]]:
    """MMD² and ratio, their intervals over groups, and notes."""
    sets = (test, train, made)
    everything = CheckedGraphs(graph for some in sets for graph in some)
    groups = len(made) // group
    member = torch.zeros(groups, len(made), dtype=torch.float64)
    member[torch.arange(groups * group) // group, torch.arange(groups * group)] = 1
    each: dict[str, np.ndarray] = {}
    floor: dict[str, float] = {}
    for name in TABLES:
        descriptor = DESCRIPTORS[name]
        kernel = Kernel("tv", descriptor.kernel.sigma)
        x, t, y = descriptor.compute(everything, device).split([len(some) for some in sets])
        xx = kernel(x, x)
        one, every = xx.new_ones(1, len(x)), xx.new_ones(1, len(t))
        floor[name] = float(estimate(xx, kernel(x, t), kernel(t, t), one, every, "biased").abs())
        found = estimate(
            xx, kernel(x, y), kernel(y, y), one.expand(groups, -1), member.to(xx.device), "biased"
        )
        each[name] = found.abs().numpy(force=True)  # the tables take the absolute value
    base = {name: round(value, DIGITS) for name, value in floor.items() if round(value, DIGITS)}
    values = {f"mmd_{name}": found for name, found in each.items()}
    if base:
        values["mmd_ratio"] = np.mean([each[name] / value for name, value in base.items()], axis=0)
    ends = {name: students(found, np.inf) for name, found in values.items()} if groups > 1 else {}
    notes = [
        f"{len(made)} generated, {len(test)} test and {len(train)} training graphs; MMD²: Gaussian TV, biased, mean "
        f"over {groups} groups of {group}",
        "MMD² of the training graphs: " + ", ".join(f"{name} {floor[name]:.2g}" for name in TABLES),
    ]
    return {name: float(found.mean()) for name, found in values.items()}, ends, notes
