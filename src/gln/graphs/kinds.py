"""Kinds of edges and nodes: checks of types and weights, and words for types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gln.errors import GLNError
from gln.graphs.record import NAMES, Graph
from gln.later import torch

TYPES = ("edge_type", "node_type")


def check_kinds(graph: Graph) -> None:
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


def _check_types(name: str, types: Any, names: Any) -> torch.Tensor:
    types = _check_list(name, types)
    if types.is_floating_point() and not torch.equal(types, types.round()):  # NaN is refused here too
        bad = types[types != types.round()][0].item()
        raise GLNError(f"{name} holds {bad:g}; expected whole numbers from 0.")
    if len(types) and (least := int(types.min())) < 0:
        raise GLNError(f"{name} holds {least}; expected whole numbers from 0.")
    if names is not None and len(types) and (most := int(types.max())) >= len(names):
        raise GLNError(f"{name} holds {most}, but only {len(names)} types have names; name all of them.")
    return types.to(torch.int64)


def _check_weights(weights: Any) -> torch.Tensor:
    single = _check_list("edge_weight", weights).to(torch.float32)
    wrong = ~(single.isfinite() & (single > 0))
    if wrong.any():
        bad = weights[wrong][0].item()
        raise GLNError(
            f"edge_weight holds {bad:g}; expected finite numbers above 0; leave edges of weight 0 out, and give signs "
            "as edge_type."
        )
    return single


def _check_list(name: str, values: Any) -> torch.Tensor:
    if not isinstance(values, torch.Tensor) or values.dim() != 1 or values.is_complex():
        shape = list(values.shape) if isinstance(values, torch.Tensor) else type(values).__name__
        raise GLNError(f"{name} has shape {shape}; expected a tensor of one number for each.")
    return values


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
