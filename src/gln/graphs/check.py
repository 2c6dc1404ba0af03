"""Checks of graphs and arrays: the rest of the package relies on what :func:`check_graph` accepts."""

from __future__ import annotations

import copy
import math
import operator
import warnings
from collections.abc import Iterable
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from gln.errors import GLNError
from gln.graphs.record import NAMES, TYPES, Graph, is_a, is_data, is_per_edge
from gln.later import torch

if TYPE_CHECKING:
    from torch import Tensor
    from torch_geometric.data import Data

NARROWEST, WIDEST = 1e-14, 1e18  # spreads whose squared distances fit into float32
NO_TABLE = "edges is not a table of node numbers; expected pairs [[i, j], ...]."
COARSEST = 1e-4  # float32 must resolve this share of the spread of the positions


def make_graph(
    pos: Any = None,
    x: Any = None,
    edges: Any = None,
    num_nodes: int | None = None,
    *,
    edge_type: Any = None,
    edge_weight: Any = None,
    node_type: Any = None,
    directed: bool = False,
) -> Graph:
    """As :func:`gln.make_graph`."""
    given = {name: value for name, value in (("pos", pos), ("x", x)) if value is not None}
    fields: dict[str, Any] = {name: as_rows(name, value) for name, value in given.items()}
    if num_nodes is None:
        if not fields:
            raise GLNError(
                "make_graph got neither pos nor x, so the number of nodes is unknown; give num_nodes."
            )
        num_nodes = len(next(iter(fields.values())))
    pairs = _as_pairs([] if edges is None else edges)
    for name, value in (("edge_type", edge_type), ("edge_weight", edge_weight)):
        if value is not None:
            once = _check_per_edge(name, as_values(name, value), pairs.shape[1], "pairs of edges")
            fields[name] = once if directed else torch.cat([once, once])
    if node_type is not None:
        fields["node_type"] = as_values("node_type", node_type)
    edge_index = pairs if directed else torch.cat([pairs, pairs.flip(0)], dim=1)
    return check_graph(Graph(num_nodes, **fields, edge_index=edge_index, directed=bool(directed)))


def check_graph(graph: Graph | Data, drop_loops: bool = False) -> Graph:
    """As :func:`gln.check_graph`, in our own record of a graph; self-loops are refused, or dropped with a warning."""
    out = as_record(graph)
    for name, value in out.rows().items():
        out[name] = as_rows(name, value)
    n = out.num_nodes = _count_nodes(out)
    directed = bool(out.__dict__.pop("directed", False))
    if directed:
        out.directed = True
    given = out.edge_index
    out.edge_index, order = _check_edges(given, n, directed, drop_loops)
    columns = 0 if given is None else given.shape[1]
    for name in filter(is_per_edge, out.keys()):
        out[name] = _check_per_edge(name, out[name], columns)[order]
    _check_kinds(out)
    return out


def as_record(graph: Graph | Data) -> Graph:
    """An unchecked copy that shares the tensors."""
    if isinstance(graph, Graph):
        return copy.copy(graph)
    if is_a(graph, "torch_geometric.data.Batch"):
        raise GLNError("Got a PyG Batch; expected a single graph; split it with batch.to_data_list().")
    if not is_data(graph):
        raise GLNError(f"Got a {type(graph).__name__}; expected a PyG Data; convert it with as_graph.")
    return Graph.from_data(graph)


def _count_nodes(graph: Graph) -> int:
    given, rows = graph.get("num_nodes"), graph.rows()
    if given is None and not rows:
        raise GLNError(
            "The graph has no pos, x or num_nodes, so its number of nodes is unknown; set num_nodes."
        )
    n = max(map(len, rows.values())) if given is None else whole_number(given)
    if n == 0:
        raise GLNError("The graph has no nodes; expected at least one.")
    if n is None or n < 0:
        raise GLNError(f"num_nodes is {given!r}; expected a whole number of at least 1.")
    for name, value in rows.items():
        if len(value) != n:
            raise GLNError(
                f"{name} has {len(value)} rows, but the graph has {n} nodes; give one row per node."
            )
    return n


def whole_number(value: Any) -> int | None:
    """An integer of any type (NumPy's too) as an int; ``None`` for anything else, including True and False."""
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None


def check_whole(owner: str, name: str, value: Any, least: int, expected: str = "") -> int:
    """``value`` as an int of at least ``least``; True and False do not count as numbers."""
    number = whole_number(value)
    if number is None or number < least:
        expected = expected or f"a whole number of at least {least}"
        raise GLNError(f"{owner} got {name}={value!r}; expected {expected}.")
    return number


def check_real(
    owner: str, name: str, value: Any, least: float = 0, most: float = math.inf, above: bool = False
) -> float:
    """``value`` as a finite number between ``least``, which may itself be excluded (``above``), and ``most``.

    It may be of any type (NumPy's too, or a tensor of one number); True and False do not count as numbers.
    """
    real = isinstance(value, Real) or (isinstance(value, torch.Tensor) and value.numel() == 1)
    number = (
        math.nan if isinstance(value, bool) or not real else value if type(value) is int else float(value)
    )
    if not least <= number <= most or number == math.inf or (above and number == least):
        low, high = "above" if above else "of at least", "" if most == math.inf else f" and at most {most:g}"
        raise GLNError(f"{owner} got {name}={value!r}; expected a number {low} {least:g}{high}.")
    return number


def check_choice(owner: str, name: str, value: Any, known: Iterable[str]) -> None:
    """Refuse a ``value`` that is not among those ``known``."""
    if value not in known:
        raise GLNError(f"{owner} got {name}={value!r}; choose from {', '.join(known)}.")


def _check_per_edge(name: str, value: Any, columns: int, what: str = "columns of edge_index") -> Tensor:
    if not isinstance(value, torch.Tensor):
        raise GLNError(
            f"{name} is a {type(value).__name__}; expected a tensor with one row per column of edge_index."
        )
    count = len(value) if value.dim() else 0
    if count != columns:
        raise GLNError(f"{name} has {count} rows, but there are {columns} {what}; give one row per edge.")
    return value


def as_numbers(value: Any, wrong: str) -> np.ndarray:
    """Numbers in an array or a list in float64; otherwise, an error in the words ``wrong``."""
    try:
        return np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise GLNError(wrong) from None


def as_values(name: str, value: Any) -> Tensor:
    """One number per edge or node, given as a tensor, an array or a list."""
    if isinstance(value, torch.Tensor):
        return value
    wrong = f"{name} holds something that is not a number; expected one number for each."
    return torch.from_numpy(as_numbers(value, wrong))


def as_rows(name: str, value: Any) -> Tensor:
    """``value`` as a finite float32 matrix, one row per node; ``pos`` is centred where float32 would be too coarse."""
    try:
        rows = value if isinstance(value, torch.Tensor) else torch.from_numpy(_as_floats(value))
    except (TypeError, ValueError):
        raise GLNError(
            f"{name} is ragged or holds something that is not a number; give every node the same number of values."
        ) from None
    if rows.dim() != 2:
        raise GLNError(f"{name} has shape {list(rows.shape)}; expected [nodes, values], one row per node.")
    if rows.is_complex():
        raise GLNError(f"{name} holds complex numbers; expected real ones; give each as two columns.")
    single = rows.to(torch.float32)
    origin = far_from(rows) if name == "pos" and single is not rows else None
    if origin is not None:  # no model sees it
        single = (rows - torch.tensor(origin, dtype=torch.float64, device=rows.device)).to(torch.float32)
    finite = np.isfinite(single.numpy(force=True)).all(axis=1)
    if not finite.all():
        bad = int(finite.argmin())
        how = "; remove or repair values that are not finite."
        if rows[bad].isfinite().all():
            how = ", too large for float32; change the unit."
        raise GLNError(f"{name} of node {bad} is {rows[bad].tolist()}{how}")
    if name == "pos" and rows.numel():
        spread = (single.amax(dim=0) - single.amin(dim=0)).max().item()
        if spread and not NARROWEST <= spread <= WIDEST:  # distances would not fit into float32
            raise GLNError(
                f"pos spreads over {spread:g}; expected {NARROWEST:g} to {WIDEST:g}, so change the unit."
            )
    return single


def _as_floats(value: Any) -> np.ndarray:
    """A float64 copy, or a float32 copy if ``value`` has no more digits than that."""
    array = np.array(value)
    if array.dtype.kind == "c":
        raise TypeError
    return array if array.dtype == np.float32 else array.astype(np.float64)


def far_from(pos: Any) -> tuple[float, ...] | None:
    """The middle of positions ``[n, p]`` in float64 that float32 would round to a coarse grid; otherwise ``None``."""
    rows = pos.numpy(force=True) if is_a(pos, "torch.Tensor") else np.asarray(pos)
    if rows.dtype != np.float64 or rows.ndim != 2 or not rows.size or not np.isfinite(rows).all():
        return None
    with np.errstate(over="ignore"):
        single = rows.astype(np.float32)
    if not np.isfinite(single).all() or (single == rows).all():  # too large even so, or no digits to lose
        return None
    low, high = rows.min(axis=0), rows.max(axis=0)
    if not np.spacing(np.abs(single).max()) > COARSEST * float((high - low).max()) > 0:
        return None
    return tuple(((low + high) / 2).tolist())


def _as_pairs(edges: Any) -> Tensor:
    """Pairs ``[m, 2]`` (tensor, array or list) as an int64 tensor ``[2, m]``."""
    pairs = edges if isinstance(edges, torch.Tensor) else torch.from_numpy(as_numbers(edges, NO_TABLE))
    if pairs.numel() == 0:
        return torch.empty(2, 0, dtype=torch.int64)
    if pairs.dim() != 2 or pairs.shape[1] != 2:
        raise GLNError(
            f"edges has shape {list(pairs.shape)}; expected [m, 2], one pair of node numbers per edge."
        )
    if pairs.is_floating_point() and not torch.equal(pairs, pairs.round()):
        raise GLNError("edges holds values that are not whole numbers; expected pairs of node numbers.")
    return pairs.to(torch.int64).T


def _is_sound(edges: np.ndarray, n: int, directed: bool) -> bool:
    """Whether edges ``[2, m]`` need no change: most do not, and NumPy tells so sooner than torch."""
    if not edges.size:
        return True
    (source, target), key = edges, edges[0] * n + edges[1]
    simple = edges.min() >= 0 and edges.max() < n and (source != target).all() and (key[1:] > key[:-1]).all()
    return bool(simple and (directed or (np.sort(target * n + source) == key).all()))


def _check_edges(
    edge_index: Tensor | None, n: int, directed: bool, drop_loops: bool
) -> tuple[Tensor, Tensor]:
    """Sorted ``edge_index`` of a simple graph on ``n`` nodes, and the numbers of its columns in the one given."""
    if edge_index is None:
        return torch.empty(2, 0, dtype=torch.int64), torch.empty(0, dtype=torch.int64)
    if not isinstance(edge_index, torch.Tensor):
        raise GLNError(
            f"edge_index is a {type(edge_index).__name__}; expected a tensor of whole numbers [2, m]; "
            "convert it with torch.as_tensor."
        )
    if edge_index.dim() != 2 or edge_index.shape[0] != 2 or edge_index.is_floating_point():
        raise GLNError(
            f"edge_index has shape {list(edge_index.shape)} and type {edge_index.dtype}; expected whole numbers [2, m]."
        )
    edge_index = edge_index.to(torch.int64)  # first: a narrow type cannot hold n, with which it is compared
    if _is_sound(edge_index.numpy(force=True), n, directed):
        return edge_index, torch.arange(edge_index.shape[1])
    source, target = edge_index
    outside = (edge_index < 0) | (edge_index >= n)
    if outside.any():
        bad = int(edge_index[outside][0])
        raise GLNError(
            f"An edge names node {bad}, but the {n} nodes are numbered 0 to {n - 1}; correct the edge list."
        )
    kept = (source != target).nonzero().flatten()
    if len(kept) < len(source):
        if not drop_loops:
            bad = int(source[source == target][0])
            raise GLNError(f"Node {bad} has an edge to itself; remove self-loops (PyG: remove_self_loops).")
        # The same words for every graph, so that they are printed once.
        warnings.warn("Edges from a node to itself are left out; no graph has them here.", stacklevel=4)
        source, target = edge_index[:, kept]
    key, order = (source * n + target).sort()
    if key.numel() and (key[1:] == key[:-1]).any():
        repeated = int(key[1:][key[1:] == key[:-1]][0])
        raise GLNError(
            f"The edge from {repeated // n} to {repeated % n} is listed twice; list each edge once "
            "(PyG: coalesce, networkx: nx.Graph(G))."
        )
    if not directed and not torch.equal(key, (target * n + source).sort().values):
        one_way = key[~torch.isin(key, target * n + source)][0].item()
        raise GLNError(
            f"The graph is directed: the edge from {one_way // n} to {one_way % n} has no reverse; symmetrise it first "
            "(PyG: to_undirected, matrices: A | A.T), or say so with directed=True."
        )
    return torch.stack([key // n, key % n]), kept[order]


def _check_kinds(graph: Graph) -> None:
    """Types as int64 from 0 and weights as positive float32, equal in both directions of an undirected graph."""
    for name in TYPES:
        if name in graph:
            graph[name] = _check_types(name, graph[name], graph.get(f"{name}_names"))
    if graph.node_type is not None and len(graph.node_type) != graph.num_nodes:
        raise GLNError(
            f"node_type has {len(graph.node_type)} values, but the graph has {graph.num_nodes} nodes; give one each."
        )
    if graph.edge_weight is not None:
        graph.edge_weight = _check_weights(graph.edge_weight)
    for name in NAMES:
        if name in graph:
            graph[name] = tuple(map(str, graph[name]))
    values = [name for name in ("edge_type", "edge_weight") if name in graph]
    if graph.directed or not values:
        return
    source, target = graph.edge_index
    reverse = (target * graph.num_nodes + source).argsort()  # of each column, as these are sorted
    for name in values:
        there, back = graph[name], graph[name][reverse]
        if not torch.equal(there, back):
            place = int((there != back).nonzero()[0])
            raise GLNError(
                f"{name} is {there[place].item():g} from {source[place]} to {target[place]} but "
                f"{back[place].item():g} back; give both the same, or directed=True."
            )


def _check_types(name: str, types: Any, names: Any) -> Tensor:
    types = _check_list(name, types)
    if types.is_floating_point() and not torch.equal(types, types.round()):  # NaN is refused here too
        bad = types[types != types.round()][0].item()
        raise GLNError(f"{name} holds {bad:g}; expected whole numbers from 0.")
    if len(types) and (least := int(types.min())) < 0:
        raise GLNError(f"{name} holds {least}; expected whole numbers from 0.")
    if names is not None and len(types) and (most := int(types.max())) >= len(names):
        raise GLNError(f"{name} holds {most}, but only {len(names)} types have names; name all of them.")
    return types.to(torch.int64)


def _check_weights(weights: Any) -> Tensor:
    single = _check_list("edge_weight", weights).to(torch.float32)
    wrong = ~(single.isfinite() & (single > 0))
    if wrong.any():
        bad = weights[wrong][0].item()
        raise GLNError(
            f"edge_weight holds {bad:g}; expected finite numbers above 0; leave edges of weight 0 out, and give signs "
            "as edge_type."
        )
    return single


def _check_list(name: str, values: Any) -> Tensor:
    if not isinstance(values, torch.Tensor) or values.dim() != 1 or values.is_complex():
        shape = list(values.shape) if isinstance(values, torch.Tensor) else type(values).__name__
        raise GLNError(f"{name} has shape {shape}; expected a tensor of one number for each.")
    return values
