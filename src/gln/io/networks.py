"""Network files: GraphML, GEXF and GML through networkx, and node-link JSON. Attributes give positions and features."""

from __future__ import annotations

import io
import json
import math
from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from xml.parsers import expat

import numpy as np

from gln.errors import GLNError, quote
from gln.graphs.record import ROWS, Graph
from gln.io.file_edges import FileEdges, kind_columns, node_words
from gln.io.items import Item, Source, decoding, load, numbers_of
from gln.io.tables import choose_roles

if TYPE_CHECKING:
    import networkx as nx

DEEPEST = 50  # nested elements of XML


def read_graphml(source: Source) -> Iterator[Item]:
    """Read one graph; its edges are the true ones."""
    import networkx as nx  # here, as most files need none

    graph = _read_xml(source, "GraphML", nx.read_graphml)
    for name, value in graph.graph.get("node_default", {}).items():  # networkx does not apply them
        for _, attributes in graph.nodes(data=True):
            attributes.setdefault(name, value)
    yield _item_of(source, graph)


def read_gexf(source: Source) -> Iterator[Item]:
    """Read one graph; its edges are the true ones, and Gephi's layout gives the positions."""
    import networkx as nx

    graph = _read_xml(source, "GEXF", nx.read_gexf)
    _place_nodes(graph, "viz", "position")
    yield _item_of(source, graph)


def read_gml(source: Source) -> Iterator[Item]:
    """Read one graph; its edges are the true ones, and ``graphics`` gives the positions."""
    import networkx as nx

    data = load(source.path)
    with decoding("GML file"):
        graph = nx.read_gml(io.BytesIO(data), label="id")
    _place_nodes(graph, "graphics")
    labels = [str(attributes.pop("label", node)) for node, attributes in graph.nodes(data=True)]
    if len(set(labels)) == len(labels):  # the names that a user knows the nodes by
        graph = nx.relabel_nodes(graph, dict(zip(list(graph.nodes), labels, strict=True)))
    yield _item_of(source, graph)


def _place_nodes(graph: nx.Graph, name: str, *inner: str) -> None:
    """Make x, y and z, which a program keeps in the attribute ``name``, attributes of their own."""
    for _, attributes in graph.nodes(data=True):
        place = attributes.pop(name, None)
        for key in inner:
            place = place.get(key) if isinstance(place, dict) else None
        for axis in "xyz" if isinstance(place, dict) else "":
            if axis in place:
                attributes.setdefault(axis, place[axis])


def read_json(source: Source) -> Iterator[Item]:
    """Read networkx's node-link form: ``nodes`` with an ``id``, and ``edges`` or ``links`` with source and target."""
    with decoding("JSON file"):
        content = json.loads(load(source.path))
    nodes = content.get("nodes") if isinstance(content, dict) else None
    if not isinstance(nodes, list) or not all(isinstance(node, dict) and "id" in node for node in nodes):
        raise GLNError("expected node-link JSON: an object with a list of nodes, each with an id.")
    ids = [_id(node.pop("id")) for node in nodes]
    links = content["edges"] if "edges" in content else content.get("links")
    pairs = None
    if links is not None:
        if not isinstance(links, list) or not all(isinstance(link, dict) for link in links):
            raise GLNError("edges is not a list of objects with source and target.")
        pairs = [(_id(link.pop("source", None)), _id(link.pop("target", None))) for link in links]
    directed = content.get("directed")
    yield _item(source, ids, nodes, pairs, links or [], directed if isinstance(directed, bool) else None)


def _id(value: Any) -> str:
    if not isinstance(value, str | int | float):
        raise GLNError(f"a node's id is {_shown(value)}; expected text or a number.")
    return str(value)


def _read_xml(source: Source, kind: str, read: Callable[[io.BytesIO], nx.Graph]) -> nx.Graph:
    data = load(source.path)
    _check_xml(data, kind)
    with decoding(f"{kind} file"):
        return read(io.BytesIO(data))


def _check_xml(data: bytes, kind: str) -> None:
    """Refuse entities (a few lines of them expand to gigabytes), deep nesting, and more than one graph.

    Also refuse repeated nodes, which networkx would merge, and unknown ones, which it would create.
    """
    depth = graphs = 0
    ids: set[str] = set()
    pairs: list[tuple[str, str]] = []

    def enter(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth, graphs
        depth += 1
        if depth > DEEPEST:
            raise GLNError(f"the XML is nested more than {DEEPEST} deep; this is not a {kind} file.")
        match name.rpartition(":")[2], attributes:
            case "graph", _:
                graphs += 1
            case "node", {"id": node}:
                if node in ids:
                    raise GLNError(f"two nodes have the id {quote(node)}.")
                ids.add(node)
            case "edge", {"source": a, "target": b}:
                pairs.append((a, b))

    def leave(name: str) -> None:
        nonlocal depth
        depth -= 1

    def refuse(*_: Any) -> None:
        raise GLNError(
            "the XML declares a DOCTYPE or entities, which are not supported; remove the declaration."
        )

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = enter, leave
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    with decoding(f"{kind} file"):
        parser.Parse(data, True)
    if graphs != 1:
        raise GLNError(f"the file holds {graphs} graphs; expected one.")
    _refuse_unknown(pairs, ids)


def _refuse_unknown(pairs: Sequence[tuple[str, str]], ids: Container[str]) -> None:
    for a, b in pairs:
        if a not in ids or b not in ids:
            raise GLNError(
                f"the edge {quote(a)} to {quote(b)} joins a node that is not in the list of nodes."
            )


def _item_of(source: Source, graph: nx.Graph) -> Item:
    ids, attributes = [str(node) for node in graph], [dict(each) for _, each in graph.nodes(data=True)]
    pairs = [(str(a), str(b)) for a, b in graph.edges()]
    links = [each for _, _, each in graph.edges(data=True)]
    return _item(source, ids, attributes, pairs, links, graph.is_directed())


def _item(
    source: Source,
    ids: list[str],
    attributes: list[dict[str, Any]],
    pairs: Sequence[tuple[str, str]] | None,
    links: Sequence[dict[str, Any]],
    directed: bool | None,
) -> Item:
    """The item of nodes with these attributes, joined by ``pairs`` with the attributes ``links``."""
    if not ids:
        raise GLNError("the graph has no nodes.")
    number = numbers_of(ids, len(ids))
    if len(number) < len(ids):
        raise GLNError(f"two nodes have the id {quote(Counter(ids).most_common(1)[0][0])}.")
    edges = None
    if pairs is not None:
        _refuse_unknown(pairs, number)
        ends = np.array([(number[a], number[b]) for a, b in pairs], dtype=np.int64).reshape(-1, 2)
        words = [f"the edge {quote(a)} to {quote(b)}" for a, b in pairs]
        edges = FileEdges(ends, _values(source, links), directed, words.__getitem__)
    told = (source.options.pos, source.options.x, source.options.node_types) != (None, None, None)
    values = (value for each in attributes for value in each.values())
    numbers = any(_is_number(value) or isinstance(value, list) for value in values)
    bare = bool(pairs) and not told and not numbers
    pos, x, of_nodes = (None, None, {}) if bare else _rows(source, ids, attributes)
    about: dict[str, Any] = {"predicted": any("probability" in link for link in links), "of_nodes": of_nodes}
    return source.item(pos, x, edges, ids=ids, bare=len(ids) if pairs else 0, **about)


def _values(source: Source, links: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    """The attributes of the edges by name; without weights of 1 that nobody asked for, as GEXF edges always have."""
    names = dict.fromkeys(name for link in links for name in link)
    values = {name: [link.get(name) for link in links] for name in names}
    given = source.options
    if given.weights is None and given.threshold_weights is None and set(values.get("weight", ())) == {1}:
        del values["weight"]
    return values


def _rows(
    source: Source, ids: list[str], attributes: list[dict[str, Any]]
) -> tuple[np.ndarray | None, np.ndarray | None, dict[str, list[Any]]]:
    """Positions and features from single numbers, or from lists called ``pos`` and ``x``; and the type of each node."""
    given = replace(source.options, graph=None, id=None)  # these are for tables
    lists = {name: (name,) for name in ROWS if any(isinstance(each.get(name), list) for each in attributes)}
    if lists:
        pos = lists.get("pos", ()) if given.pos is None else given.pos
        x = lists.get("x", ()) if given.x is None else given.x
        given = replace(given, pos=pos, x=x)
    first: dict[str, Any] = {}  # as in a table, the first value says whether an attribute is a number
    for each in attributes:
        first |= {name: value for name, value in each.items() if first.get(name) is None}
    roles = choose_roles(list(first), [name for name in first if _is_number(first[name])], given)
    source.say(str(roles))
    positions, features = (
        np.concatenate([_matrix(name, ids, attributes) for name in group], axis=1) if group else None
        for group in (roles.pos, roles.x)
    )
    types = {} if roles.type is None else {roles.type: [each.get(roles.type) for each in attributes]}
    return positions, features, types


def _matrix(name: str, ids: list[str], attributes: list[dict[str, Any]]) -> np.ndarray:
    """An attribute of all nodes, ``[n, width]``."""
    values: list[Any] = [each.get(name) for each in attributes]
    rows = [value if isinstance(value, list) else [value] for value in values]
    for node, row in zip(ids, rows, strict=True):
        if len(row) != len(rows[0]):
            raise GLNError(
                f"{name} of node {quote(node)} has {len(row)} values; expected {len(rows[0])}, as for the first node."
            )
        wrong = next((value for value in row if not _is_number(value) or not math.isfinite(value)), 0)
        if wrong != 0:
            raise GLNError(f"{name} of node {quote(node)} is {_shown(wrong)}; expected a finite number.")
    return np.array(rows, dtype=np.float64)


def _is_number(value: Any) -> bool:
    """Whether this is a number; a whole number too large for a float is not."""
    return isinstance(value, float) or (isinstance(value, int) and abs(value) < 1e300)


def _shown(value: Any) -> str:
    """A value for a message; lists and objects, which may be nested too deep to print, only by type."""
    if value is None:
        return "missing"
    return f"a {type(value).__name__}" if isinstance(value, list | dict) else quote(str(value))


def to_graphml(item: Item, answer: Graph) -> bytes:
    """Nodes by the user's ids, with ``pos0 …``, ``x0 …`` and ``type``; edges with ``probability``, type and weight."""
    import networkx as nx  # slow, and only this format needs it

    ids = [str(node) for node in (range(item.graph.num_nodes) if item.ids is None else item.ids)]
    odd = next((node for node in ids if not node.isprintable()), None)
    if odd is not None:
        raise GLNError(
            f"{item.name}: the node id {quote(odd)} has characters that XML cannot hold; write a .csv."
        )
    graph = nx.DiGraph() if answer.directed else nx.Graph()
    graph.add_nodes_from(ids)
    for name, rows in item.rows().items():
        for number, column in enumerate(rows.T.tolist()):
            nx.set_node_attributes(graph, dict(zip(ids, column, strict=True)), f"{name}{number}")
    if answer.node_type is not None:
        nx.set_node_attributes(graph, dict(zip(ids, node_words(answer).tolist(), strict=True)), "type")
    pairs, chances = answer.scored_once()
    columns = {"probability": chances} | kind_columns(answer)
    columns.pop("direction", None)
    values = zip(*(column.tolist() for column in columns.values()), strict=True)
    graph.add_edges_from(
        (ids[a], ids[b], dict(zip(columns, row, strict=True)))
        for (a, b), row in zip(pairs.tolist(), values, strict=True)
    )
    file = io.BytesIO()
    nx.write_graphml_xml(graph, file)
    return file.getvalue()
