"""A padded batch of graphs for dense models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gln.errors import GLNError
from gln.graphs.record import Graph

if TYPE_CHECKING:
    from torch_geometric.data import Data


@dataclass(frozen=True)
class GraphBatch:
    """``B`` graphs padded to the ``N`` nodes of the largest.

    ========  ================  ==========================================================
    ``pos``   ``[B, N, p]``     positions, zero on padding; ``None`` if the graphs have none
    ``x``     ``[B, N, f]``     features, zero on padding; ``None`` if the graphs have none
    ``adj``   ``[B, N, N]``     bool: the true edges, symmetric, diagonal and padding False
    ``mask``  ``[B, N]``        bool: True on real nodes, which always come first
    ========  ================  ==========================================================

    :meth:`from_graphs` and :meth:`to_graphs` are exact inverses for ``pos``, ``x`` and ``edge_index``.
    """

    pos: Tensor | None
    x: Tensor | None
    adj: Tensor
    mask: Tensor

    @classmethod
    def from_graphs(cls, graphs: Sequence[Graph], edges: bool = True, nodes: int = 0) -> GraphBatch:
        """Pad checked graphs (see :func:`gln.graphs.check_graph`) into one batch.

        Args:
            graphs: at least one, all with the same widths of ``pos`` and ``x``.
            edges: False leaves the edges out: ``adj`` is all False and takes no memory, whatever its size.
            nodes: pad to at least so many.
        """
        if not graphs:
            raise GLNError("The batch is empty; expected at least one graph.")
        sizes = torch.tensor([graph.num_nodes for graph in graphs])
        mask = torch.arange(max(int(sizes.max()), nodes)) < sizes[:, None]  # [B, N]
        adj = _adjacency(graphs, *mask.shape) if edges else _nothing(mask)
        return cls(pos=_pad("pos", graphs, mask), x=_pad("x", graphs, mask), adj=adj, mask=mask)

    def without_edges(self) -> GraphBatch:
        """The same nodes with an ``adj`` that is all False and takes no memory."""
        return replace(self, adj=_nothing(self.mask))

    def some(self, numbers: Tensor, nodes: int) -> GraphBatch:
        """The graphs with these numbers ``[b]``, padded to ``nodes``, which none of them exceeds."""
        rows = {name: value[:, :nodes][numbers] for name, value in self._features().items()}
        return replace(
            self, **rows, adj=self.adj[:, :nodes, :nodes][numbers], mask=self.mask[:, :nodes][numbers]
        )

    def to_graphs(self) -> list[Data]:
        """The graphs without padding, as PyG's ``Data``, on the CPU."""
        batch = self.to("cpu")
        graphs = []
        for index, size in enumerate(batch.sizes.tolist()):
            rows = {name: value[index, :size].clone() for name, value in batch._features().items()}
            edges = batch.adj[index, :size, :size].nonzero().T.contiguous()
            graphs.append(Graph(size, **rows, edge_index=edges).to_data())
        return graphs

    @property
    def sizes(self) -> Tensor:
        """Nodes per graph: ``[B]``."""
        return self.mask.sum(dim=1)

    @property
    def features(self) -> Tensor:
        """The paper's ``H⁰ = [pos, x]``: ``[B, N, p + f]``."""
        parts = list(self._features().values())
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

    def _features(self) -> dict[str, Tensor]:
        return {name: value for name, value in (("pos", self.pos), ("x", self.x)) if value is not None}

    def _map(self, change) -> GraphBatch:  # type: ignore[no-untyped-def]
        moved = {name: change(value) for name, value in self._features().items()}
        adj = change(_stored(self.adj)).expand(self.adj.shape)
        return replace(self, **moved, adj=adj, mask=change(self.mask))


def as_batch(given: Any) -> GraphBatch:
    """The padded batch of what a model is given: a batch itself, or the nodes of a PyG ``Batch`` or ``Data``.

    Gradients pass through ``pos`` and ``x``; the edges of PyG's graphs are left out.
    """
    if isinstance(given, GraphBatch):
        return given
    if not any(kind.__module__.startswith("torch_geometric.") for kind in type(given).__mro__):
        raise GLNError(f"Got a {type(given).__name__}; expected a GraphBatch, or a Batch or Data of PyG.")
    from torch_geometric.utils import to_dense_batch

    padded = {
        name: to_dense_batch(given[name], given.batch) for name in ("pos", "x") if given.get(name) is not None
    }
    if not padded:
        raise GLNError("The batch has neither pos nor x; a model needs at least one of them.")
    _, mask = next(iter(padded.values()))
    rows = {name: None if name not in padded else padded[name][0] for name in ("pos", "x")}
    return GraphBatch(**rows, adj=_nothing(mask), mask=mask)


def pair_mask(mask: Tensor) -> Tensor:
    """True on pairs of two different nodes of ``mask [B, N]``: ``[B, N, N]``."""
    both = mask[:, :, None] & mask[:, None, :]
    return both & ~torch.eye(mask.shape[1], dtype=torch.bool, device=mask.device)


def _adjacency(graphs: Sequence[Graph], count: int, width: int) -> Tensor:
    """The edges as ``[B, N, N]``, by a single scatter: edge (g, i, j) goes to (g·N + i)·N + j."""
    shift = torch.repeat_interleave(
        torch.arange(count), torch.tensor([graph.edge_index.shape[1] for graph in graphs])
    )
    source, target = torch.cat([graph.edge_index for graph in graphs], dim=1)
    adj = torch.zeros(count * width * width, dtype=torch.bool)
    adj[(shift * width + source) * width + target] = True
    return adj.view(count, width, width)


def _nothing(mask: Tensor) -> Tensor:
    """An all-False ``[B, N, N]`` for ``mask [B, N]``: a single stored value, expanded."""
    return mask.new_zeros(()).expand(*mask.shape, mask.shape[1])


def _stored(adj: Tensor) -> Tensor:
    """Undo the expansion of :func:`_nothing`, which a copy to another device would write out."""
    return adj if any(adj.stride()) else adj[:1, :1, :1]


def rows_of_all(name: str, graphs: Sequence[Graph]) -> Tensor | None:
    """The attribute ``name`` of all graphs: ``[nodes of all graphs, width]``; ``None`` if no graph has it."""
    rows = [graph.get(name) for graph in graphs]
    widths = {None if row is None else row.shape[1] for row in rows}
    if len(widths) != 1:
        raise GLNError(f"{name} differs between the graphs: got widths {widths}; give all the same width.")
    return None if widths == {None} else torch.cat(rows)


def _pad(name: str, graphs: Sequence[Graph], mask: Tensor) -> Tensor | None:
    """The attribute ``name`` of all graphs, zero on padding: ``[B, N, width]``."""
    flat = rows_of_all(name, graphs)
    if flat is None:
        return None
    out = flat.new_zeros(*mask.shape, flat.shape[1])
    out[mask] = flat
    return out
