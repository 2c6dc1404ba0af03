"""Conversion of graphs from PyG, networkx and adjacency matrices (scipy, numpy, torch), and back; words for types."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gln.errors import GLNError
from gln.graphs.check import (
    NO_TABLE,
    as_numbers,
    as_record,
    as_rows,
    as_values,
    check_graph,
    make_graph,
)
from gln.graphs.record import KINDS, NAMES, ROWS, TYPES, Graph, is_a, is_data, is_per_edge
from gln.later import csgraph, sparse, torch

if TYPE_CHECKING:
    import networkx as nx


def as_graph(
    source: Any, pos: Any = None, x: Any = None, directed: bool = False, kinds: bool = True
) -> Graph:
    """As :func:`gln.as_graph`, in our own record of a graph; without ``kinds``, these are neither read nor checked."""
    if isinstance(source, Graph) or is_data(source):
        graph = as_record(source)
    elif is_networkx(source):
        graph = _from_networkx(source, kinds)
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
    if directed:
        graph.directed = True
    if not kinds:
        there = [name for name in (*KINDS, *NAMES) if graph.__dict__.pop(name, None) is not None]
        if there and not isinstance(source, Graph):
            warnings.warn(f"{there[0]} is not looked at here.", stacklevel=3)
    return check_graph(graph, drop_loops=True)


class CheckedGraphs(list[Graph]):
    """Graphs that were just checked: :func:`as_graphs` does not check them again."""


def as_graphs(sources: Iterable[Any], what: str = "graphs", kinds: bool = True) -> list[Graph]:
    """Convert every graph of a collection with :func:`as_graph`; an error names the graph at fault.

    Types given in words have the same numbers in all graphs.
    """
    if isinstance(sources, CheckedGraphs):
        return sources
    graphs = []
    for number, source in enumerate(each_of(sources, what)):
        try:
            graphs.append(as_graph(source, kinds=kinds))
        except GLNError as error:
            raise GLNError(f"{what}[{number}]: {error}") from None
    if not graphs:
        raise GLNError(f"{what} is empty; expected at least one graph.")
    share_kinds(graphs)
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
        for name in NAMES:  # a prediction in numbers means the words of the truth
            if name in truth and name not in guess:
                guess[name] = truth[name]
    share_kinds([*pairs[0], *pairs[1]])
    return pairs


def is_networkx(value: Any) -> bool:
    """Whether this is a graph of networkx."""
    return is_a(value, "networkx.Graph")


def each_of(sources: Iterable[Any], what: str = "graphs") -> Iterator[Any]:
    """The graphs of a collection, one after another; refuse a single graph."""
    single = isinstance(sources, Graph | dict | str) or is_data(sources) or is_networkx(sources)
    matrix = isinstance(sources, np.ndarray | torch.Tensor) and sources.ndim == 2
    try:
        if single or matrix or sparse.issparse(sources):
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
    """Convert to a networkx graph on nodes 0 … n−1, with ``pos`` and ``x`` as node attributes.

    Types and weights are the attributes ``type`` and ``weight``, and a directed graph is a ``DiGraph``.
    """
    import networkx as nx

    graph = check_graph(graph)
    out = nx.DiGraph() if graph.directed else nx.Graph()
    out.add_nodes_from(range(graph.num_nodes))
    edges, once = graph.edges_once().tolist(), graph.listed_once()
    out.add_edges_from(edges)
    for name in (*ROWS, *KINDS):
        if graph[name] is None:
            continue
        values = (graph[name][once] if is_per_edge(name) else graph[name]).tolist()
        if words := graph.get(f"{name}_names"):
            out.graph[f"{name}_names"] = list(words)  # those that this graph does not use, too
            values = [words[value] for value in values]
        short = name.removeprefix("edge_").removeprefix("node_")
        if is_per_edge(name):
            nx.set_edge_attributes(out, dict(zip(map(tuple, edges), values, strict=True)), short)
        else:
            nx.set_node_attributes(out, dict(enumerate(values)), short)
    return out


def to_scipy(graph: Graph) -> sparse.csr_array:
    """The adjacency matrix ``[n, n]`` as a scipy CSR array: boolean, or the weights of a graph that has some."""
    graph = check_graph(graph)
    there = np.ones(graph.num_edges, dtype=bool)
    weights = there if graph.edge_weight is None else graph.edge_weight.numpy(force=True)
    ends = tuple(graph.edge_index.numpy(force=True))
    return sparse.csr_array((weights, ends), shape=(graph.num_nodes, graph.num_nodes))


def to_numpy(graph: Graph) -> np.ndarray:
    """The adjacency matrix ``[n, n]`` as an array: boolean, or the weights of a graph that has some."""
    return to_scipy(graph).toarray()


def _from_networkx(source: nx.Graph, kinds: bool) -> Graph:
    nodes = labels(source)
    number = {node: i for i, node in enumerate(nodes)}
    edges = [(number[a], number[b]) for a, b in source.edges()]
    of_edges: dict[str, Any] = {}
    others: dict[str, Any] = {}
    try:
        of_edges, others = _networkx_kinds(source, nodes)
    except GLNError:
        if kinds:
            raise
    pairs = torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).T
    if not source.is_directed():  # networkx lists an undirected edge once
        back = (pairs[0] != pairs[1]).nonzero().flatten()
        pairs = torch.cat([pairs, pairs[:, back].flip(0)], dim=1)
        of_edges = {name: torch.cat([value, value[back]]) for name, value in of_edges.items()}
    graph = Graph(len(number), edge_index=pairs, directed=source.is_directed(), **of_edges, **others)
    for name in ROWS:
        values = {node: value for node, value in source.nodes(data=name) if value is not None}
        if values and len(values) < len(number):
            raise GLNError(
                f"{len(values)} of the {len(number)} nodes have the attribute {name}; give it to all nodes or to none."
            )
        if values:
            graph[name] = as_rows(name, [values[node] for node in nodes])
    return graph


def _networkx_kinds(source: nx.Graph, nodes: list[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The attributes ``type`` and ``weight`` of the edges, one value for each, and all else that is said of types."""
    of_edges: dict[str, Any] = {}
    others: dict[str, Any] = {}
    weights = [value for _, _, value in source.edges(data="weight")]
    # networkx takes an edge without a weight for one of weight 1.
    if any(value is not None for value in weights):
        weights = [1 if value is None else value for value in weights]
        of_edges["edge_weight"] = as_values("edge_weight", weights)
    types = {
        "edge_type": [value for _, _, value in source.edges(data="type")],
        "node_type": [source.nodes[node].get("type") for node in nodes],
    }
    for name, values in types.items():
        if any(value is not None for value in values):
            words, what = source.graph.get(f"{name}_names"), name.removesuffix("_type") + "s"
            numbers, others[f"{name}_names"] = number_types(values, what, words)
            (of_edges if is_per_edge(name) else others)[name] = numbers
    return of_edges, others


def graph_of(edges: Any, nodes: int) -> Graph:
    """The graph that ``edges`` make of so many ``nodes`` without positions, however they are given.

    They are pairs ``[m, 2]`` or ``[2, m]``, each in one direction or both; an adjacency matrix ``[n, n]``; or a graph
    of networkx or PyG. A table ``[2, 2]`` is a list of pairs.
    """

    def whole() -> bool:
        known = isinstance(edges, Graph) or is_data(edges) or is_networkx(edges) or sparse.issparse(edges)
        return known or (getattr(edges, "shape", None) == (nodes, nodes) and nodes > 2)

    if not whole():
        table = edges.numpy(force=True) if isinstance(edges, torch.Tensor) else edges
        edges = as_numbers(table if len(table) else np.empty((0, 2)), NO_TABLE)
    if whole():
        graph = as_graph(edges)
        if graph.num_nodes != nodes:
            raise GLNError(f"The edges are of a graph of {graph.num_nodes} nodes, but there are {nodes}.")
        return graph
    if edges.ndim == 2 and edges.shape[0] == 2 != edges.shape[1]:
        edges = edges.T
    if edges.ndim != 2 or edges.shape[1] != 2:
        raise GLNError(
            f"edges has shape {list(edges.shape)}; expected pairs [m, 2] or [2, m], or a matrix [{nodes}, {nodes}]."
        )
    return make_graph(edges=np.unique(np.sort(edges, axis=1), axis=0), num_nodes=nodes)


def components(pairs: np.ndarray, nodes: int) -> np.ndarray:
    """The component of every node ``[n]`` by ``pairs [m, 2]``, numbered in the order of their first nodes."""
    joined = sparse.coo_array((np.ones(len(pairs), dtype=np.int8), tuple(pairs.T)), shape=(nodes, nodes))
    number: np.ndarray = csgraph.connected_components(joined, directed=False)[1]
    return number


def labels(source: nx.Graph) -> list[Any]:
    """The nodes of a networkx graph in the order of their numbers: 0 … n−1 if so named, else as in ``source.nodes``."""
    counted = list(range(len(source)))
    return counted if all(node in source for node in counted) else list(source.nodes)


def _from_matrix(source: Any) -> Graph:
    shape = tuple(source.shape)
    if len(shape) != 2 or shape[0] != shape[1]:
        raise GLNError(f"The adjacency matrix has shape {list(shape)}; expected a square matrix [n, n].")
    entries = _entries(source)
    entries.sum_duplicates()
    weights = entries.data
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        raise GLNError(
            f"The adjacency matrix holds {weights[wrong][0]}; expected 0, 1 or positive weights; threshold it first."
        )
    there = weights != 0
    row, col = (torch.from_numpy(part[there].astype(np.int64)) for part in entries.coords)
    weighted = not np.isin(weights, (0, 1)).all()  # ones are no weights
    values = torch.from_numpy(weights[there].astype(np.float64)) if weighted else None
    return Graph(shape[0], edge_index=torch.stack([row, col]), edge_weight=values)


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


def number_types(
    values: Sequence[Any], what: str, names: Sequence[str] | None = None
) -> tuple[torch.Tensor, tuple[str, ...] | None]:
    """Types given as whole numbers or as words, as numbers ``[m]``, and the words in the order of their numbers.

    This order is that of ``names``, if known, and else alphabetical; ``what`` are the edges or nodes, in words.
    """
    if missing := sum(value is None for value in values):
        raise GLNError(
            f"{missing} of the {len(values)} {what} have no type; give one to all of them or to none."
        )
    if all(isinstance(value, str) for value in values):
        known = tuple(names or ()) if set(values) <= set(names or ()) else tuple(sorted(set(values)))
        number = {name: index for index, name in enumerate(known)}
        return torch.tensor([number[value] for value in values], dtype=torch.int64), known
    try:
        return torch.tensor([float(value) for value in values], dtype=torch.float64), None
    except (TypeError, ValueError):
        raise GLNError(f"The {what} have types that are neither all words nor all whole numbers.") from None


def rename_types(graph: Graph, kind: str, names: Sequence[str]) -> None:
    """Number the types ``kind`` (``"edge_type"`` or ``"node_type"``) of a checked graph as in ``names``, in place."""
    own = graph.get(f"{kind}_names")
    if own is None or own == tuple(names):
        return
    number = {name: index for index, name in enumerate(names)}
    used = {own[index] for index in graph[kind].unique().tolist()}
    if unknown := sorted(used - set(number)):
        raise GLNError(f"There is no {kind} {unknown[0]!r}; expected one of {', '.join(map(repr, names))}.")
    graph[kind] = torch.tensor([number.get(name, -1) for name in own], dtype=torch.int64)[graph[kind]]
    graph[f"{kind}_names"] = tuple(names)


def share_kinds(graphs: Sequence[Graph]) -> None:
    """Give checked graphs one numbering of the words for types, and those without edges the kinds of the others."""
    for kind in TYPES:
        named = [graph.get(f"{kind}_names") for graph in graphs if kind in graph and len(graph[kind])]
        words = {name for names in named if names for name in names}
        if not words or len(set(named)) == 1:
            continue
        if None in named:
            raise GLNError(f"{kind} is given in words for some graphs and in numbers for others; choose one.")
        for graph in graphs:
            if kind in graph:
                rename_types(graph, kind, sorted(words))
    for name in ("edge_type", "edge_weight"):
        empty = next((graph[name][:0] for graph in graphs if name in graph), None)
        for graph in graphs:
            if empty is not None and name not in graph and not graph.num_edges:
                graph[name] = empty
