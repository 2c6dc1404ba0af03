"""Many graphs as a few flat tensors, to be stored in a file or sent between processes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gln.errors import GLNError
from gln.files import read_safetensors, write_atomically
from gln.graphs.record import NAMES, Graph, is_per_edge
from gln.later import safetensors, torch


def pack(graphs: Sequence[Graph]) -> dict[str, torch.Tensor]:
    """Concatenate graphs that carry the same attributes; :func:`unpack` is the exact inverse.

    Keys say what a row belongs to: ``graph.*`` to a graph, ``node.*`` to a node, ``edge.*`` to a column of
    ``edge_index``, ``face.*`` to a column of ``face [3, t]``, the triangles of a mesh. Scalars belong to the
    graph, attributes named ``edge_*`` to the edges, all others to the nodes.
    Words for types, the same for all graphs, are ``words.*``.
    """
    if not graphs:
        raise GLNError("Got no graphs to pack; expected at least one.")
    sizes, columns = [graph.num_nodes for graph in graphs], [graph.num_edges for graph in graphs]
    packed = {"graph.num_nodes": torch.tensor(sizes), "graph.num_edges": torch.tensor(columns)}
    for name in sorted({key for graph in graphs for key in graph.keys()} - {"num_nodes"}):  # noqa: SIM118
        if name in NAMES:  # the words for types, as JSON in bytes
            every = {tuple(graph.get(name) or ()) for graph in graphs}
            if len(every) > 1:
                raise GLNError(f"{name} differs between the graphs; convert them together with as_graphs.")
            words = json.dumps(every.pop()).encode()
            packed[f"words.{name}"] = torch.tensor(list(words), dtype=torch.uint8)
            continue
        values = [_tensor(graph, name) for graph in graphs]
        if name == "edge_index":
            packed["edge.edge_index"] = torch.cat([value.T for value in values])
        elif name == "face":
            packed["face.face"] = torch.cat([value.T for value in values])
            packed["graph.num_faces"] = torch.tensor([value.shape[1] for value in values])
        elif not any(value.dim() for value in values):
            packed[f"graph.{name}"] = torch.stack(values)
        else:
            of_edges = is_per_edge(name)
            what = "columns of edge_index" if of_edges else "nodes"
            for value, count in zip(values, columns if of_edges else sizes, strict=True):
                if not value.dim() or len(value) != count:
                    raise GLNError(
                        f"{name} has shape {list(value.shape)}; expected a row for each of the graph's {count} {what}, "
                        "or a scalar in every graph."
                    )
            packed[f"{'edge' if of_edges else 'node'}.{name}"] = torch.cat(values)
    return packed


def _tensor(graph: Graph, name: str) -> torch.Tensor:
    value = graph.get(name)
    if name == "directed":
        return torch.tensor(bool(value))
    if not isinstance(value, torch.Tensor):
        raise GLNError(
            f"{name} is a {type(value).__name__} in one of the graphs; expected a tensor in all of them; remove it "
            "where it is not."
        )
    return value


def unpack(packed: dict[str, torch.Tensor]) -> list[Graph]:
    """The graphs that :func:`pack` concatenated; each has its own memory."""
    sizes, edges = packed["graph.num_nodes"].tolist(), packed["graph.num_edges"].tolist()
    columns: dict[str, Sequence[Any]] = {}
    for key, value in packed.items():
        level, name = key.split(".", 1)
        if level in ("edge", "face"):
            parts = value.split(edges if level == "edge" else packed["graph.num_faces"].tolist())
            turned = [part.T for part in parts] if name in ("edge_index", "face") else parts
            columns[name] = [part.clone(memory_format=torch.contiguous_format) for part in turned]
        elif level == "node":
            columns[name] = [part.clone() for part in value.split(sizes)]
        elif level == "words":
            columns[name] = [tuple(json.loads(bytes(value.tolist())))] * len(sizes)
        elif name == "directed":
            columns[name] = value.tolist()
        elif name not in ("num_nodes", "num_edges", "num_faces"):
            columns[name] = [part.clone() for part in value.unbind()]
    rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    return [Graph(**row, num_nodes=size) for row, size in zip(rows, sizes, strict=True)]


def save_graphs(graphs: Sequence[Graph], path: Path | str) -> None:
    """Write the tensors of :func:`pack` to a safetensors file; :func:`load_graphs` reads it."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    packed = {name: value.contiguous() for name, value in pack(graphs).items()}
    write_atomically(path, safetensors.save(packed))


def load_graphs(path: Path | str) -> list[Graph]:
    """Read the graphs that :func:`save_graphs` wrote to ``path``."""
    try:
        return unpack(read_safetensors(Path(path))[0])
    except OSError as error:
        raise GLNError(
            f"Cannot read {path} ({error.strerror or error}); expected a file that save_graphs wrote."
        ) from None
    except (KeyError, TypeError, ValueError, RuntimeError):  # not safetensors, or not these tensors
        raise GLNError(f"{path} is not a file of graphs; expected one that save_graphs wrote.") from None
