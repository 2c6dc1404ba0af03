"""A padded batch of graphs for dense models."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gln.errors import GLNError
from gln.graphs.record import KINDS, ROWS, Graph, is_per_edge

if TYPE_CHECKING:
    from torch_geometric.data import Data


@dataclass(frozen=True)
class GraphBatch:
    """``B`` graphs padded to the ``N`` nodes of the largest.

    ===============  =============  ===================================================================
    ``pos``          ``[B, N, p]``  positions, zero on padding; ``None`` if the graphs have none
    ``x``            ``[B, N, f]``  features, zero on padding; ``None`` if the graphs have none
    ``adj``          ``[B, N, N]``  bool: the true edges, diagonal and padding False; symmetric unless directed
    ``mask``         ``[B, N]``     bool: True on real nodes, which always come first
    ``edge_type``    ``[B, N, N]``  int64: −1 where there is no edge; ``None`` if the graphs have no types
    ``edge_weight``  ``[B, N, N]``  float32: 0 where there is no edge; ``None`` if the graphs have no weights
    ``node_type``    ``[B, N]``     int64: −1 on padding; ``None`` if the nodes have no types
    ``directed``                    whether ``adj[b, i, j]`` is the edge from i to j alone
    ===============  =============  ===================================================================

    :meth:`from_graphs` and :meth:`to_graphs` are exact inverses for all of these.
    """

    pos: Tensor | None
    x: Tensor | None
    adj: Tensor
    mask: Tensor
    edge_type: Tensor | None = None
    edge_weight: Tensor | None = None
    node_type: Tensor | None = None
    directed: bool = False

    @staticmethod
    def from_graphs(
        graphs: Sequence[Graph], edges: bool = True, kinds: Collection[str] = KINDS, nodes: int = 0
    ) -> GraphBatch:
        """Pad checked graphs (see :func:`gln.graphs.check_graph`) into one batch.

        Args:
            graphs: at least one, all with the same widths of ``pos`` and ``x``, all directed or none.
            edges: False leaves the edges and kinds out: ``adj`` is all False and takes no memory, whatever its size.
            kinds: those of ``edge_type``, ``edge_weight`` and ``node_type`` to take along; all graphs with edges have
                one, or none has.
            nodes: pad to at least so many.
        """
        joined = JoinedGraphs.of(graphs, kinds, edges)
        return joined.batch(np.arange(len(joined)), max(int(joined.sizes.max()), nodes))

    def without_edges(self) -> GraphBatch:
        """The same nodes with an ``adj`` that is all False and takes no memory, and no kinds."""
        return replace(self, adj=_nothing(self.mask), edge_type=None, edge_weight=None, node_type=None)

    def some(self, numbers: Tensor, nodes: int) -> GraphBatch:
        """The graphs with these numbers ``[b]``, padded to ``nodes``, which none of them exceeds."""
        rows: dict[str, Any] = {name: value[:, :nodes][numbers] for name, value in self.of_nodes().items()}
        pairs = {name: value[:, :nodes, :nodes][numbers] for name, value in self._of_pairs().items()}
        return replace(self, **rows, **pairs)

    def to_graphs(self) -> list[Data]:
        """The graphs without padding, as PyG's ``Data``, on the CPU."""
        return [graph.to_data() for graph in self.to_records()]

    def to_records(self) -> list[Graph]:
        """The same in our own record of a graph."""
        batch = self.to("cpu")
        graphs = []
        for index, size in enumerate(batch.sizes.tolist()):
            rows = {name: value[index, :size].clone() for name, value in batch.of_nodes().items()}
            source, target = edges = batch.adj[index, :size, :size].nonzero().T.contiguous()
            rows |= {name: value[index, source, target] for name, value in batch._of_pairs().items()}
            del rows["mask"], rows["adj"]
            graphs.append(Graph(size, **rows, edge_index=edges, directed=self.directed))
        return graphs

    @property
    def has_edges(self) -> bool:
        """Whether the true edges are there; False if they were left out."""
        return _is_stored(self.adj)

    @property
    def sizes(self) -> Tensor:
        """Nodes per graph: ``[B]``."""
        return self.mask.sum(dim=1)

    @property
    def features(self) -> Tensor:
        """The paper's ``H⁰ = [pos, x]``: ``[B, N, p + f]``."""
        parts = [value for value in (self.pos, self.x) if value is not None]
        if not parts:
            raise GLNError("The graphs have neither pos nor x; a model needs at least one of them.")
        return torch.cat(parts, dim=-1)

    @property
    def pair_mask(self) -> Tensor:
        """True on pairs of two different real nodes: ``[B, N, N]``."""
        return pair_mask(self.mask)

    def to(self, device: torch.device | str, non_blocking: bool = False) -> GraphBatch:
        """The batch on another device."""
        return self._map(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> GraphBatch:
        """The batch in page-locked memory; PyTorch's data loader calls this."""
        return self._map(Tensor.pin_memory)

    def __len__(self) -> int:
        return len(self.mask)

    def of_nodes(self) -> dict[str, Tensor]:
        """What there is of the nodes, by name: ``pos``, ``x``, ``mask`` and ``node_type``."""
        names = (*ROWS, "mask", "node_type")
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    def _of_pairs(self) -> dict[str, Any]:
        names = ("adj", "edge_type", "edge_weight")
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    def _map(self, change) -> GraphBatch:  # type: ignore[no-untyped-def]
        moved = {name: change(value) for name, value in self.of_nodes().items()}
        for name, value in self._of_pairs().items():
            # A copy to another device would write out the expansion of :func:`_nothing`.
            stored = value if _is_stored(value) else value[:1, :1, :1]
            moved[name] = change(stored).expand(value.shape)
        return replace(self, **moved)


class JoinedGraphs(Sequence[Graph]):
    """Graphs that lie one after another, of which padded batches are made where they are: memory O(nodes + edges).

    Args:
        sizes: nodes of every graph ``[B]``.
        columns: columns of its ``edge_index`` ``[B]``.
        rows: of all nodes together, such as ``pos`` and ``node_type``.
        entries: of all columns together, such as ``edge_type``.
        ends: all columns ``[2, m]``; each graph counts its nodes from 0. ``None``: they are left out.
        directed: all of them are.
    """

    def __init__(
        self,
        sizes: np.ndarray,
        columns: np.ndarray,
        rows: dict[str, Tensor],
        entries: dict[str, Tensor],
        ends: Tensor | None,
        directed: bool = False,
    ) -> None:
        self.sizes, self.columns, self.directed = sizes, columns, directed
        self.rows, self.entries, self.ends = rows, entries, ends
        self.device = torch.device("cpu") if ends is None else ends.device

    @classmethod
    def of(
        cls,
        graphs: Sequence[Graph],
        kinds: Collection[str] = KINDS,
        edges: bool = True,
        device: torch.device | str = "cpu",
    ) -> JoinedGraphs:
        """``graphs``, ``kinds`` and ``edges`` as in :meth:`GraphBatch.from_graphs`; on a device."""
        if not graphs:
            raise GLNError("The batch is empty; expected at least one graph.")
        wanted = (*ROWS, *(kinds if edges else ()))
        if isinstance(graphs, JoinedGraphs):
            directed, ends, given = graphs.directed, graphs.ends, graphs.rows | graphs.entries
        else:
            ways = {bool(graph.get("directed")) for graph in graphs if edges}
            if len(ways) > 1:
                raise GLNError("Some of the graphs are directed and others are not; give one kind alone.")
            listed = [graph.edge_index for graph in graphs if edges and graph.num_edges]
            directed, ends = True in ways, torch.cat(listed or [torch.empty(2, 0, dtype=torch.long)], dim=1)
            values = {name: values_of_all(name, graphs) for name in wanted}
            given = {name: value for name, value in values.items() if value is not None}
        there = {name: given[name].to(device) for name in wanted if name in given}
        rows = {name: value for name, value in there.items() if not is_per_edge(name)}
        entries = {name: value for name, value in there.items() if is_per_edge(name)}
        ends = ends.to(device) if edges and ends is not None else None
        return cls(*counts_of(graphs), rows, entries, ends, directed)

    @cached_property
    def first(self) -> tuple[np.ndarray, np.ndarray]:
        """Where the rows and where the columns of every graph begin."""
        return np.cumsum(self.sizes) - self.sizes, np.cumsum(self.columns) - self.columns

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return [self[each] for each in range(*number.indices(len(self)))]
        size, count = int(self.sizes[number]), int(self.columns[number])
        row, column = (int(first[number]) for first in self.first)
        of_nodes = {name: values[row : row + size] for name, values in self.rows.items()}
        of_edges = {name: values[column : column + count] for name, values in self.entries.items()}
        if self.ends is not None:
            of_edges["edge_index"] = self.ends[:, column : column + count]
        return Graph(size, **of_nodes, **of_edges, directed=self.directed)

    def batch(self, numbers: np.ndarray, nodes: int) -> GraphBatch:
        """The graphs with these numbers, padded to ``nodes``, which none of them exceeds."""
        shape = len(numbers), nodes
        rows, graph, place = _ranges(self.sizes, self.first[0], numbers)
        chosen, slot = self.there(rows), self.there(graph * nodes + place)  # of every node in the batch
        mask = _filled(torch.ones_like(chosen, dtype=torch.bool), slot, shape, False)
        fields: dict[str, Any] = dict.fromkeys(ROWS)
        for name, values in self.rows.items():
            fields[name] = _filled(values[chosen], slot, shape, -1 if name == "node_type" else 0)
        if self.ends is None:
            return GraphBatch(**fields, adj=_nothing(mask), mask=mask)
        columns, graph, _ = _ranges(self.columns, self.first[1], numbers)
        chosen = self.there(columns)
        source, target = self.ends[:, chosen]
        slot = (self.there(graph) * nodes + source) * nodes + target
        adj = _filled(torch.ones_like(chosen, dtype=torch.bool), slot, (*shape, nodes), False)
        for name, values in self.entries.items():
            empty = -1 if name == "edge_type" else 0
            fields[name] = _filled(values[chosen], slot, (*shape, nodes), empty)
        return GraphBatch(**fields, adj=adj, mask=mask, directed=self.directed)

    def there(self, array: np.ndarray) -> Tensor:
        """The array on the device, without waiting for the copy."""
        host = torch.from_numpy(array)
        return (host.pin_memory() if self.device.type == "cuda" else host).to(self.device, non_blocking=True)


def counts_of(graphs: Sequence[Graph]) -> tuple[np.ndarray, np.ndarray]:
    """How many nodes every graph has, and how many columns its ``edge_index``: ``[B]`` each."""
    if isinstance(graphs, JoinedGraphs):
        return graphs.sizes, graphs.columns
    return np.array([graph.num_nodes for graph in graphs]), np.array([graph.num_edges for graph in graphs])


def _ranges(
    counts: np.ndarray, first: np.ndarray, numbers: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of what each graph has ``counts`` of: where it stands, which of ``numbers`` it is of, and its place there."""
    some = counts[numbers]
    graph = np.repeat(np.arange(len(numbers)), some)
    place = np.arange(len(graph)) - np.repeat(np.cumsum(some) - some, some)
    return first[numbers][graph] + place, graph, place


def _filled(values: Tensor, slot: Tensor, shape: tuple[int, ...], empty: int) -> Tensor:
    """The values at their slots of a batch, ``empty`` elsewhere."""
    out = values.new_full((math.prod(shape), *values.shape[1:]), empty)
    out[slot] = values
    return out.view(*shape, *values.shape[1:])


def as_batch(given: Any) -> GraphBatch:
    """The padded batch of what a model is given: a batch itself, or the nodes of a PyG ``Batch`` or ``Data``.

    Gradients pass through ``pos`` and ``x``; the edges of PyG's graphs are left out.
    """
    if isinstance(given, GraphBatch):
        return given
    if not any(kind.__module__.startswith("torch_geometric.") for kind in type(given).__mro__):
        raise GLNError(f"Got a {type(given).__name__}; expected a GraphBatch, or a Batch or Data of PyG.")
    from torch_geometric.utils import to_dense_batch

    mask: Tensor | None = None
    rows: dict[str, Any] = dict.fromkeys(ROWS)
    for name in ROWS:
        if given.get(name) is not None:
            rows[name], mask = to_dense_batch(given[name], given.batch)
    if mask is None:
        raise GLNError("The batch has neither pos nor x; a model needs at least one of them.")
    return GraphBatch(**rows, adj=_nothing(mask), mask=mask)


def real(values: Tensor) -> Tensor:
    """Convert to the widest floating type of the device (Apple's MPS has no float64)."""
    return values.to(torch.float32 if values.device.type == "mps" else torch.float64)


def pair_mask(mask: Tensor) -> Tensor:
    """True on pairs of two different nodes of ``mask [B, N]``: ``[B, N, N]``."""
    both = mask[:, :, None] & mask[:, None, :]
    return both & ~torch.eye(mask.shape[1], dtype=torch.bool, device=mask.device)


def _nothing(mask: Tensor) -> Tensor:
    """An all-False ``[B, N, N]`` for ``mask [B, N]``: a single stored value, expanded."""
    return mask.new_zeros(()).expand(*mask.shape, mask.shape[1])


def _is_stored(adj: Tensor) -> bool:
    return any(adj.stride())


def values_of_all(name: str, graphs: Sequence[Graph]) -> Tensor | None:
    """The attribute ``name`` of all graphs, one after another; ``None`` if no graph has it.

    A graph without edges need not have what is of edges.
    """
    there = [graph[name] for graph in graphs if name in graph]
    lacking = sum(name not in graph for graph in graphs if graph.num_edges or not is_per_edge(name))
    if there and lacking:
        raise GLNError(f"{lacking} of {len(graphs)} graphs have no {name}; give it to all or to none.")
    if len(widths := {value.shape[1:] for value in there}) > 1:
        raise GLNError(f"{name} differs between the graphs: got widths {widths}; give all the same width.")
    return torch.cat(there) if there else None
