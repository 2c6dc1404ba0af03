"""GraphRNN's likelihood: normalised, the same step by step, alone or in a batch, and what sampling follows."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from gln.families import family
from reproduction.baselines.graphrnn_network import ConnectedGraphs, GraphRNNNetwork

VARIANTS = ("rnn", "mlp")


def network(variant: str, nodes: int, width: int, seed: int = 0) -> GraphRNNNetwork:
    torch.manual_seed(seed)
    net = GraphRNNNetwork(variant, nodes, width, 7, 5, 4, 3, layers=2).double()  # type: ignore[arg-type]
    for weight in net.parameters():  # far from even chances
        weight.data *= 2
    return net


def log_likelihood(net: GraphRNNNetwork, bits: Tensor, sizes: Tensor) -> Tensor:
    """Of every graph ``[B]``."""
    loss, owner = net.losses(bits, sizes)
    return loss.new_zeros(len(bits)).index_add(0, owner, -loss)


def sequences(nodes: int, width: int) -> tuple[Tensor, Tensor]:
    """Every graph of up to ``nodes`` nodes as rows of up to ``width`` bits, and its size."""
    found: list[tuple[int, Tensor]] = []

    def grow(rows: list[tuple[int, ...]]) -> None:
        bits = torch.zeros(nodes - 1, width)
        for number, row in enumerate(rows):
            bits[number, : len(row)] = torch.tensor(row)
        found.append((len(rows) + 1, bits))
        if len(rows) < nodes - 1:
            for row in product((0, 1), repeat=min(len(rows) + 1, width)):
                if any(row):
                    grow([*rows, row])

    grow([])
    return torch.stack([bits for _, bits in found]), torch.tensor([size for size, _ in found])


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("nodes", "width"), [(2, 1), (4, 3), (5, 2), (3, 4)])
def test_the_likelihoods_of_all_sequences_sum_to_one(variant: str, nodes: int, width: int) -> None:
    bits, sizes = sequences(nodes, width)
    total = log_likelihood(network(variant, nodes, width), bits, sizes).exp().sum()
    torch.testing.assert_close(total, torch.ones_like(total))


def step_by_step(net: GraphRNNNetwork, bits: Tensor, size: int) -> Tensor:
    """The log-likelihood of one graph ``[N − 1, M]``, one row and one bit at a time."""
    total, memory = bits.new_zeros(()), None
    row = torch.ones(net.width, dtype=bits.dtype)
    for number in range(min(size, net.nodes - 1)):
        state, memory = net.graph_level(net.read_row(row)[None, None], memory)
        expected = net.expect(state[0, 0])
        row = bits[number]
        if net.variant == "rnn":
            edge_memory = torch.stack(
                [expected, *[torch.zeros_like(expected)] * (net.edge_level.num_layers - 1)]
            )
            edge_memory, bit = edge_memory[:, None], torch.ones(1, dtype=bits.dtype)
        for place in range(min(number + 1, net.width)):
            if net.variant == "rnn":
                state, edge_memory = net.edge_level(net.read_bit(bit)[None, None], edge_memory)
                score, bit = net.score_bit(state[0, 0]).squeeze(), row[place][None]
            else:
                score = expected[place]
            total = total + logsigmoid(score if row[place] else -score)
    return total


@pytest.fixture(scope="module")
def batch() -> tuple[Tensor, Tensor, int]:
    graphs = family("delaunay", points=(4, 9)).sample(6, seed=0)
    known = ConnectedGraphs.of(graphs, torch.device("cpu"))
    bits = known.bits(torch.arange(6), 4, torch.Generator().manual_seed(0))
    return bits.double(), known.sizes, known.adj.shape[1]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("room", [0, 3])  # the most nodes there can be, beyond the largest graph here
def test_teacher_forcing_is_walking_step_by_step(
    variant: str, room: int, batch: tuple[Tensor, Tensor, int]
) -> None:
    bits, sizes, nodes = batch
    assert len(sizes.unique()) > 2
    net = network(variant, nodes + room, 4)
    bits = torch.cat([bits, bits.new_zeros(len(bits), room, 4)], dim=1)
    expected = torch.stack(
        [step_by_step(net, rows, size) for rows, size in zip(bits, sizes.tolist(), strict=True)]
    )
    torch.testing.assert_close(log_likelihood(net, bits, sizes), expected)
    alone = torch.cat([log_likelihood(net, bits[i : i + 1], sizes[i : i + 1]) for i in range(len(bits))])
    torch.testing.assert_close(alone, expected)


@pytest.mark.parametrize("variant", VARIANTS)
def test_sampling_follows_the_likelihood(variant: str) -> None:
    nodes, width, count = 4, 2, 20_000
    bits, sizes = sequences(nodes, width)
    net = network(variant, nodes, width, seed=1)
    chance = log_likelihood(net, bits, sizes).exp()
    drawn = net.sample(torch.rand(count, nodes - 1, width, dtype=torch.float64))
    same = (drawn[:, None] == bits.bool()).flatten(2).all(2)  # [count, sequences]
    assert same.any(1).all()
    share = same.double().mean(0)
    deviation = (chance * (1 - chance) / count).sqrt()
    assert ((share - chance).abs() <= 5 * deviation + 1e-4).all()
    assert (chance > 0.02).sum() > 4  # otherwise little is tested


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_numbers_drawn_decide_the_bits(variant: str) -> None:
    net = network(variant, 5, 3)
    always, never = net.sample(torch.zeros(2, 4, 3).double()), net.sample(torch.ones(2, 4, 3).double())
    assert always.sum(-1).tolist() == [[1, 2, 3, 3]] * 2
    assert not never.any()
