"""GraphRNN (You et al., 2018): one network runs over the nodes, another over the bits of each node.

The graph-level GRU reads the bits of the previous node and predicts what to expect of the next. The edge level turns
that into bits: either a second GRU, where each bit depends on those before it (``"rnn"``), or an MLP, where the bits
are independent (``"mlp"``, GraphRNN-S). A row of zeros ends the graph, as does reaching the maximum of ``N`` nodes.

Training uses teacher forcing and runs all nodes and all bits of a batch in one call of each GRU.

Unlike the released code, this uses leaky ReLUs (slope 0.01): the last layer of the edge level has eight units, and with
some seeds all of them die within fifty steps and never recover.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.nn.utils.rnn import PackedSequence

from gln.baselines.graphrnn_gru import run_gru

Variant = Literal["rnn", "mlp"]


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

    def losses(self, bits: Tensor, sizes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """The negative log-likelihood of every bit in a batch ``[S]``, and the graph it belongs to ``[S]``.

        ``bits [B, N − 1, M]`` are 0 and 1; ``sizes`` are the nodes of each graph, the largest graph first.
        """
        layout = Layout.of(tuple(min(size, self.nodes - 1) for size in sizes), self.width, bits.device)
        truth = bits.to(next(self.parameters()).dtype)
        before = torch.cat([torch.ones_like(truth[:, :1]), truth[:, :-1]], dim=1)  # the previous node's row
        packed = PackedSequence(self.read_row(before[layout.graph, layout.row]), layout.graph_steps)
        # From here on the longest rows come first, as the edge level needs them.
        expected = self.expect(run_gru(self.graph_level, packed)).flip(0)  # [R, edge_hidden | M]
        rows = truth[layout.graph, layout.row].flip(0)  # [R, M]
        loss = binary_cross_entropy_with_logits(
            self._edge_logits(expected, rows, layout),
            rows[layout.edge_row, layout.edge_bit],
            reduction="none",
        )
        return loss, layout.edge_graph

    def log_likelihood(self, bits: Tensor, sizes: tuple[int, ...]) -> Tensor:
        """Of every graph ``[B]``; the likelihoods of all complete bit sequences sum to 1."""
        loss, owner = self.losses(bits, sizes)
        return loss.new_zeros(len(bits)).index_add(0, owner, -loss)

    def _edge_logits(self, expected: Tensor, rows: Tensor, layout: Layout) -> Tensor:
        if self.variant == "mlp":
            return expected[layout.edge_row, layout.edge_bit]
        before = torch.cat([torch.ones_like(rows[:, :1]), rows[:, :-1]], dim=1)  # the bit before
        inputs = self.read_bit(before[layout.edge_row, layout.edge_bit][:, None])
        states = run_gru(self.edge_level, PackedSequence(inputs, layout.edge_steps), self._start(expected))
        return self.score_bit(states).squeeze(-1)

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


class Layout:
    """Where the rows and bits of a batch lie when packed, so that no GRU step is spent on padding.

    =====================  =======  ==========================================================================
    ``graph``, ``row``     ``[R]``  graph and row number of the ``r``-th row: all first rows, all second rows, …
    ``edge_row``           ``[S]``  the row of the ``s``-th bit, counted from the last row: all first bits, then
                                    all second bits, …; later rows are longer and come first
    ``edge_bit``           ``[S]``  its place in its row
    ``edge_graph``         ``[S]``  the graph it belongs to
    ``graph_steps``                 rows per step of the graph level, on the CPU
    ``edge_steps``                  bits per step of the edge level, on the CPU
    =====================  =======  ==========================================================================
    """

    def __init__(self, rows: tuple[int, ...], width: int, device: torch.device) -> None:
        if list(rows) != sorted(rows, reverse=True):
            raise ValueError("the graphs of a batch come largest first")
        row, graph, self.graph_steps = _packed(torch.tensor(rows))
        bit, edge_row, self.edge_steps = _packed((row + 1).clamp(max=width).flip(0))
        self.graph, self.row = graph.to(device), row.to(device)
        self.edge_bit, self.edge_row = bit.to(device), edge_row.to(device)
        self.edge_graph = graph.flip(0)[edge_row].to(device)

    @staticmethod
    @lru_cache(maxsize=64)
    def of(rows: tuple[int, ...], width: int, device: torch.device) -> Layout:
        """A layout, shared by all batches of the same shape."""
        return Layout(rows, width, device)


def _packed(lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Step and sequence of every entry, step by step, for sequences of falling ``lengths``; and entries per step."""
    alive = torch.arange(int(lengths.max()))[:, None] < lengths  # [T, B]
    step, sequence = alive.nonzero().T
    return step, sequence, alive.sum(1)


def _two_layers(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, hidden), nn.LeakyReLU(), nn.Linear(hidden, outputs))
