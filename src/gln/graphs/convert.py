"""Conversion of graphs from PyG, networkx and adjacency matrices (scipy, numpy, torch), and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from gln.errors import GLNError
from gln.graphs.check import as_record, as_rows, check_graph
from gln.graphs.record import ROWS, Graph, is_a, is_data
from gln.later import sparse, torch

if TYPE_CHECKING:
    import networkx as nx


def as_graph(source: Any, pos: Any = None, x: Any = None) -> Graph:
    """As :func:`gln.as_graph`, in our own record of a graph."""
    if isinstance(source, Graph) or is_data(source):
        graph = as_record(source)
        _refuse_weights(graph.get("edge_weight"))
    elif is_networkx(source):
        graph = _from_networkx(source)
    elif sparse.issparse(source) or isinstance(source, np.ndarray | torch.Tensor):
        graph = _from_matrix(source)
    else:
        raise GLNError(
            f"Got a {type(source).__name__}; expected a graph: PyG Data, networkx or an adjacency matrix "
            "(scipy, numpy, torch)."
        )
    if pos is not None:
        graph.pos = as_rows("pos", pos)
    if x is not None:
        graph.x = as_rows("x", x)
    return check_graph(graph)


class CheckedGraphs(list[Graph]):
    """Graphs that were just checked: :func:`as_graphs` does not check them again."""


def as_graphs(sources: Iterable[Any], what: str = "graphs") -> list[Graph]:
    """Convert every graph of a collection with :func:`as_graph`; an error names the graph at fault."""
    if isinstance(sources, CheckedGraphs):
        return sources
    graphs = []
    for number, source in enumerate(each_of(sources, what)):
        try:
            graphs.append(as_graph(source))
        except GLNError as error:
            raise GLNError(f"{what}[{number}]: {error}") from None
    if not graphs:
        raise GLNError(f"{what} is empty; expected at least one graph.")
    return graphs


def as_graph_pairs(true: Iterable[Any], predicted: Iterable[Any]) -> tuple[list[Graph], list[Graph]]:
    """Convert true graphs and their predictions, each pair on the same nodes; networkx nodes are matched by label."""
    truths, guesses = list(each_of(true, "true")), list(each_of(predicted, "predicted"))
    if len(truths) != len(guesses):
        raise GLNError(f"Got {len(truths)} true and {len(guesses)} predicted graphs; expected equally many.")
    for number, (truth, guess) in enumerate(zip(truths, guesses, strict=True)):
        if is_networkx(truth) and is_networkx(guess):
            guesses[number] = _in_order_of(truth, guess, f"predicted[{number}]")
    pairs = as_graphs(truths, "true"), as_graphs(guesses, "predicted")
    for number, (truth, guess) in enumerate(zip(*pairs, strict=True)):
        if truth.num_nodes != guess.num_nodes:
            raise GLNError(
                f"predicted[{number}] has {guess.num_nodes} nodes and true[{number}] has {truth.num_nodes}; "
                "expected the same nodes in the same order."
            )
    return pairs


def is_networkx(value: Any) -> bool:
    """Whether this is a graph of networkx."""
    return is_a(value, "networkx.Graph")


def each_of(sources: Iterable[Any], what: str = "graphs") -> Iterator[Any]:
    """The graphs of a collection, one after another; refuse a single graph."""
    one_matrix = sparse.issparse(sources) or (
        isinstance(sources, np.ndarray | torch.Tensor) and sources.ndim == 2
    )
    try:
        single = isinstance(sources, Graph | dict | str) or is_data(sources) or is_networkx(sources)
        if one_matrix or single:
            raise TypeError
        return iter(sources)  # tried, because PyG's datasets iterate without being an Iterable
    except TypeError:
        raise GLNError(f"{what} is a single {type(sources).__name__}; expected a list of graphs.") from None


def _in_order_of(truth: nx.Graph, guess: nx.Graph, what: str) -> nx.Graph:
    """``guess`` with its nodes in the order of ``truth``, so that equal labels get equal numbers."""
    wanted, found = labels(truth), labels(guess)
    if wanted == found or len(wanted) != len(found) or list(range(len(wanted))) in (wanted, found):
        return guess  # nodes named 0 … n−1 are matched by number
    missing = next((node for node in wanted if node not in guess), None)
    if missing is not None:
        raise GLNError(
            f"{what} has no node {missing!r}, but the true graph does; expected the same nodes in both."
        )
    ordered = guess.__class__()
    ordered.add_nodes_from((node, guess.nodes[node]) for node in wanted)
    ordered.add_edges_from(guess.edges(data=True))
    return ordered


def to_networkx(graph: Graph) -> nx.Graph:
    """Convert to a networkx graph on nodes 0 … n−1, with ``pos`` and ``x`` as node attributes."""
    import networkx as nx

    graph = check_graph(graph)
    out = nx.Graph()
    out.add_nodes_from(range(graph.num_nodes))
    for name, value in graph.rows().items():
        nx.set_node_attributes(out, dict(enumerate(value.tolist())), name)
    out.add_edges_from(graph.edges_once().tolist())
    return out


def to_scipy(graph: Graph) -> sparse.csr_array:
    """The adjacency matrix ``[n, n]`` as a boolean scipy CSR array."""
    graph = check_graph(graph)
    row, col = graph.edge_index.numpy(force=True)
    return sparse.csr_array(
        (np.ones(len(row), dtype=bool), (row, col)), shape=(graph.num_nodes, graph.num_nodes)
    )


def to_numpy(graph: Graph) -> np.ndarray:
    """The adjacency matrix ``[n, n]`` as a boolean array."""
    return to_scipy(graph).toarray()


def _from_networkx(source: nx.Graph) -> Graph:
    nodes = labels(source)
    number = {node: i for i, node in enumerate(nodes)}
    edges = [(number[a], number[b]) for a, b in source.edges()]
    for a, b, weight in source.edges(data="weight"):
        if weight is not None and weight != 1:
            raise GLNError(
                f"The edge from {a} to {b} has weight {weight}; expected an unweighted graph; threshold it first."
            )
    pairs = torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).T
    if not source.is_directed():  # networkx lists an undirected edge once
        loops = pairs[:, pairs[0] == pairs[1]]
        others = pairs[:, pairs[0] != pairs[1]]
        pairs = torch.cat([loops, others, others.flip(0)], dim=1)
    graph = Graph(edge_index=pairs, num_nodes=len(number))
    for name in ROWS:
        values = {node: value for node, value in source.nodes(data=name) if value is not None}
        if values and len(values) < len(number):
            raise GLNError(
                f"{len(values)} of the {len(number)} nodes have the attribute {name}; give it to all nodes or to none."
            )
        if values:
            graph[name] = as_rows(name, [values[node] for node in nodes])
    return graph


def pairs_of(edges: Any, nodes: int) -> np.ndarray:
    """Undirected edges ``[m, 2]``, each once, however they are given; whether they fit the nodes is not checked.

    Args:
        edges: pairs ``[m, 2]`` or ``[2, m]``, each in one direction or both; an adjacency matrix ``[n, n]``; a graph of
            networkx or PyG. A table ``[2, 2]`` is a list of pairs.
        nodes: how many nodes there are.
    """
    whole = isinstance(edges, Graph) or is_data(edges) or is_networkx(edges) or sparse.issparse(edges)
    if not whole:
        table = edges.numpy(force=True) if isinstance(edges, torch.Tensor) else edges
        try:
            edges = np.asarray(table if len(table) else np.empty((0, 2)), dtype=np.float64)
        except (TypeError, ValueError):
            raise GLNError("edges is not a table of node numbers; expected pairs [[i, j], ...].") from None
        whole = edges.shape == (nodes, nodes) and nodes > 2
    if whole:
        graph = as_graph(edges)
        if graph.num_nodes != nodes:
            raise GLNError(f"The edges are of a graph of {graph.num_nodes} nodes, but there are {nodes}.")
        return graph.edges_once()
    if edges.ndim == 2 and edges.shape[0] == 2 != edges.shape[1]:
        edges = edges.T
    if edges.ndim != 2 or edges.shape[1] != 2:
        raise GLNError(
            f"edges has shape {list(edges.shape)}; expected pairs [m, 2] or [2, m], or a matrix [{nodes}, {nodes}]."
        )
    return np.unique(np.sort(edges, axis=1), axis=0)


def labels(source: nx.Graph) -> list[Any]:
    """The nodes of a networkx graph in the order of their numbers: 0 … n−1 if so named, else as in ``source.nodes``."""
    counted = list(range(len(source)))
    return counted if all(node in source for node in counted) else list(source.nodes)


def _refuse_weights(weights: Any) -> None:
    if isinstance(weights, torch.Tensor) and (weights != 1).any():
        bad = weights[weights != 1][0].item()
        raise GLNError(f"edge_weight holds {bad:g}; expected an unweighted graph; threshold it first.")


def _from_matrix(source: Any) -> Graph:
    shape = tuple(source.shape)
    if len(shape) != 2 or shape[0] != shape[1]:
        raise GLNError(f"The adjacency matrix has shape {list(shape)}; expected a square matrix [n, n].")
    entries = _entries(source)
    entries.sum_duplicates()
    weights = entries.data
    if not np.isin(weights, (0, 1)).all():  # NaN is refused here too
        bad = weights[~np.isin(weights, (0, 1))][0]
        raise GLNError(f"The adjacency matrix holds {bad}; expected only 0 and 1; threshold it first.")
    row, col = (torch.from_numpy(part[weights != 0].astype(np.int64)) for part in entries.coords)
    return Graph(edge_index=torch.stack([row, col]), num_nodes=shape[0])


def _entries(source: Any) -> sparse.coo_array:
    """The entries of a matrix of numbers; a sparse one is never made dense."""
    if isinstance(source, torch.Tensor):
        if source.dtype in (torch.float16, torch.bfloat16):
            source = source.to(torch.float32)
        if source.layout != torch.strided:
            source = source.detach().cpu().to_sparse_coo().coalesce()
            indices, values = source.indices().numpy(), source.values().numpy()
            source = sparse.coo_array((values, tuple(indices)), shape=tuple(source.shape))
        else:
            source = source.numpy(force=True)
    if source.dtype.kind not in "biuf":
        raise GLNError(
            f"The adjacency matrix has entries of type {source.dtype}; expected 0 and 1; cast it to int or bool."
        )
    return sparse.coo_array(source.astype(np.float32) if source.dtype == np.float16 else source)
