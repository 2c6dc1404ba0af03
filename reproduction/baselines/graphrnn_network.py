"""GraphRNN (You et al., 2018): graphs as rows of bits, and the two networks that run over nodes and bits.

The graph-level GRU reads the bits of the previous node and predicts what to expect of the next. The edge level turns
that into bits: either a second GRU, where each bit depends on those before it (``"rnn"``), or an MLP, where the bits
are independent (``"mlp"``, GraphRNN-S). A row of zeros ends the graph, as does reaching the maximum of ``N`` nodes.

Row ``i − 1`` describes node ``i`` of a breadth-first order: bit ``j`` says whether it is joined to node ``i − 1 − j``,
the latest first. A breadth-first order keeps these edges short, so a row needs only ``M`` bits.

Training uses teacher forcing and runs all nodes and all bits of a batch in one call of each GRU.

Unlike the released code, this uses leaky ReLUs (slope 0.01): the last layer of the edge level has eight units, and with
some seeds all of them die within fifty steps and never recover.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from gln.evaluation.statistics import largest_components
from gln.graphs import GraphBatch
from gln.graphs.record import Graph

Variant = Literal["rnn", "mlp"]

CELLS = 2**26  # entries of adjacency matrices processed at a time


class GraphRNNNetwork(nn.Module):
    """The two levels; a graph of ``n`` nodes has ``min(n, N − 1)`` rows, the last of them zeros if ``n < N``.

    Args:
        variant: how the bits of a row depend on each other.
        nodes: ``N``, the maximum number of nodes.
        width: ``M``, the number of bits in a row.
        hidden, embedding: widths of the graph level, and of the MLP.
        edge_hidden, edge_embedding: widths of the edge-level GRU.
        layers: number of layers of each GRU.
    """

    def __init__(
        self,
        variant: Variant,
        nodes: int,
        width: int,
        hidden: int,
        embedding: int,
        edge_hidden: int,
        edge_embedding: int,
        layers: int,
    ) -> None:
        super().__init__()
        self.variant, self.nodes, self.width = variant, nodes, width
        self.read_row = nn.Sequential(nn.Linear(width, embedding), nn.LeakyReLU())
        self.graph_level = nn.GRU(embedding, hidden, layers, batch_first=True)
        self.expect = _two_layers(hidden, embedding, edge_hidden if variant == "rnn" else width)
        if variant == "rnn":
            self.read_bit = nn.Sequential(nn.Linear(1, edge_embedding), nn.LeakyReLU())
            self.edge_level = nn.GRU(edge_embedding, edge_hidden, layers, batch_first=True)
            self.score_bit = _two_layers(edge_hidden, edge_embedding, 1)
        self._initialise()

    def _initialise(self) -> None:
        """As released: Xavier for all weights, 0.25 for the biases of the GRUs."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight, gain=nn.init.calculate_gain("relu"))
            elif isinstance(module, nn.GRU):
                for name, weight in module.named_parameters():
                    if "bias" in name:
                        nn.init.constant_(weight, 0.25)
                    else:
                        nn.init.xavier_uniform_(weight)

    def losses(self, bits: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
        """The negative log-likelihood of every bit in a batch ``[S]``, and the graph it belongs to ``[S]``.

        ``bits [B, N − 1, M]`` are 0 and 1; ``sizes [B]`` are the nodes of each graph, on the CPU.
        """
        lengths = sizes.clamp(max=self.nodes - 1)
        truth = bits.to(next(self.parameters()).dtype)[:, : int(lengths.max())]  # [B, T, M]
        states = run_gru(self.graph_level, self.read_row(_shifted(truth)), lengths)
        graph, row = _there(lengths, truth.shape[1]).nonzero(
            as_tuple=True
        )  # on the CPU: a GPU is not waited for
        expected, rows = self.expect(states[graph, row]), truth[graph, row]  # [R, edge_hidden | M], [R, M]
        widths = (row + 1).clamp(max=self.width)  # bits of every row
        logits = expected
        if self.variant == "rnn":
            inputs = self.read_bit(_shifted(rows)[..., None])
            states = run_gru(self.edge_level, inputs, widths, self._start(expected))
            logits = self.score_bit(states).squeeze(-1)
        loss = binary_cross_entropy_with_logits(logits, rows, reduction="none")
        place, bit = _there(widths, self.width).nonzero(as_tuple=True)
        return loss[place, bit], graph[place]

    def _start(self, expected: Tensor) -> Tensor:
        """The first layer of the edge level starts from the output of the graph level ``[R, edge_hidden]``."""
        others = expected.new_zeros(self.edge_level.num_layers - 1, *expected.shape)
        return torch.cat([expected[None], others])

    @torch.no_grad()
    def sample(self, uniform: Tensor) -> Tensor:
        """Graphs as bits ``[B, N − 1, M]``; a bit is set if ``uniform``, of this shape, is below its probability."""
        bits = torch.zeros_like(uniform)
        row, alive, memory = torch.ones_like(bits[:, 0]), bits.new_ones(len(bits), 1), None
        for number in range(bits.shape[1]):
            state, memory = self.graph_level(self.read_row(row)[:, None], memory)
            row = self._sample_row(self.expect(state[:, 0]), uniform[:, number, : number + 1])
            alive = alive * row.any(1, keepdim=True)
            bits[:, number] = row * alive
            if not alive.any():
                break
        return bits.bool()

    def _sample_row(self, expected: Tensor, uniform: Tensor) -> Tensor:
        """Sample one row ``[B, M]`` given the graph level's output, using ``uniform [B, ≤ M]``."""
        row = uniform.new_zeros(len(uniform), self.width)
        length = uniform.shape[1]
        if self.variant == "mlp":
            row[:, :length] = (uniform < expected[:, :length].sigmoid()).to(row.dtype)
            return row
        bit, memory = torch.ones_like(row[:, :1]), self._start(expected)
        for number in range(length):
            state, memory = self.edge_level(self.read_bit(bit)[:, None], memory)
            bit = (uniform[:, number, None] < self.score_bit(state[:, 0]).sigmoid()).to(row.dtype)
            row[:, number] = bit[:, 0]
        return row


def run_gru(gru: nn.GRU, inputs: Tensor, lengths: Tensor, start: Tensor | None = None) -> Tensor:
    """The states of the last layer ``[R, T, H]`` over the first ``lengths [R]`` of the steps of ``inputs [R, T, I]``.

    ``start`` ``[L, R, H]`` is the state of every layer before the first step, by default 0.
    """
    packed = pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False)
    states, _ = pad_packed_sequence(gru(packed, start)[0], batch_first=True, total_length=inputs.shape[1])
    return states


def _shifted(truth: Tensor) -> Tensor:
    """What came before each of ``truth [B, T, …]``: ones at first."""
    return torch.cat([torch.ones_like(truth[:, :1]), truth[:, :-1]], dim=1)


def _there(lengths: Tensor, most: int) -> Tensor:
    """Which of ``most`` places the first ``lengths [R]`` are: ``[R, most]``."""
    return torch.arange(most) < lengths[:, None]


def _two_layers(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, hidden), nn.LeakyReLU(), nn.Linear(hidden, outputs))


@dataclass(frozen=True)
class ConnectedGraphs:
    """Connected graphs, padded: ``adj [G, N, N]`` bool, ``sizes [G]``."""

    adj: Tensor
    sizes: Tensor

    @classmethod
    def of(cls, graphs: Sequence[Graph], device: torch.device) -> ConnectedGraphs:
        """The largest component of every graph, as a breadth-first order reaches no further."""
        batch = GraphBatch.from_graphs(largest_components(graphs)).to(device)
        return cls(batch.adj, batch.sizes)

    @property
    def at_a_time(self) -> int:
        """The number of graphs to order at a time."""
        return max(1, CELLS // self.adj[0].numel())

    def shuffled_orders(self, numbers: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """A random breadth-first order ``[B, N]`` of each of the graphs ``numbers [B]``, and its width ``[B]``."""
        adj, sizes = self.adj[numbers], self.sizes[numbers]
        keys = torch.rand(adj.shape[:2], generator=generator).to(adj.device)
        beyond = torch.arange(adj.shape[1], device=adj.device) >= sizes[:, None]
        shuffle = keys.masked_fill(beyond, 2).argsort(dim=1)  # real nodes first
        rows = torch.arange(len(adj), device=adj.device)[:, None, None]
        order, width = breadth_first(adj[rows, shuffle[:, :, None], shuffle[:, None, :]])
        return shuffle.gather(1, order), width

    def width(self, count: int, generator: torch.Generator) -> int:
        """``M``: the largest width of ``count`` random orders of random graphs."""
        widest = 1
        for start in range(0, count, self.at_a_time):
            share = min(self.at_a_time, count - start)
            numbers = torch.randint(len(self.adj), (share,), generator=generator).to(self.adj.device)
            widest = max(widest, int(self.shuffled_orders(numbers, generator)[1].max()))
        return widest

    def bits(self, numbers: Tensor, width: int, generator: torch.Generator) -> Tensor:
        """The graphs ``numbers [B]`` in random orders, as bits ``[B, N − 1, M]``."""
        order, _ = self.shuffled_orders(numbers, generator)
        return encode(self.adj[numbers], self.sizes[numbers], order, width)


def breadth_first(adj: Tensor) -> tuple[Tensor, Tensor]:
    """Breadth-first orders of connected graphs ``adj [B, N, N]`` from node 0, visiting neighbours by number.

    Returns the nodes in order ``[B, N]``, padded with 0, and the width ``[B]``: the largest distance in the order from
    a node back to its first neighbour.
    """
    count, nodes, _ = adj.shape
    every = torch.arange(count, device=adj.device)
    names = torch.arange(nodes, device=adj.device).expand(count, nodes)
    queue = torch.zeros(count, nodes + 1, dtype=torch.int64, device=adj.device)  # the last place is a dump
    seen = names == 0
    ends, width = torch.ones_like(every), torch.zeros_like(every)
    for place in range(nodes):
        new = adj[every, queue[:, place]] & ~seen & (place < ends)[:, None]  # [B, N]
        places = (ends[:, None] + new.cumsum(1) - 1).masked_fill(~new, nodes)
        queue.scatter_(1, places, names)
        seen |= new
        found = new.sum(1)
        ends += found
        width = torch.where(found > 0, (ends - 1 - place).clamp(min=width), width)
    return queue[:, :nodes] * (names < ends[:, None]), width


def encode(adj: Tensor, sizes: Tensor, order: Tensor, width: int) -> Tensor:
    """Bits ``[B, N − 1, M]`` of graphs ``adj [B, N, N]`` in ``order [B, N]``; edges longer than ``M`` are lost."""
    nodes = adj.shape[1]
    later = torch.arange(1, nodes, device=adj.device)[:, None]  # [N − 1, 1]
    earlier = later - 1 - torch.arange(width, device=adj.device)  # [N − 1, M]
    graph = torch.arange(len(adj), device=adj.device)[:, None, None]
    bits = adj[graph, order[:, later], order[:, earlier.clamp(min=0)]]
    return bits & (earlier >= 0) & (later < sizes[:, None, None])


def decode(bits: Tensor) -> list[Graph]:
    """The graphs encoded in ``bits [B, N − 1, M]``; each ends before its first row of zeros."""
    graphs = []
    for rows in bits.cpu():
        size = 1 + int(rows.any(1).cumprod(0).sum())
        row, back = rows[: size - 1].nonzero().T
        one_way = torch.stack([row + 1, row - back])
        edges = torch.cat([one_way, one_way.flip(0)], dim=1)
        edges = edges[:, (edges[0] * size + edges[1]).argsort()]
        graphs.append(Graph(edge_index=edges, num_nodes=size))
    return graphs
