"""Pairs without empty slots do what the padded ones do."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from gln.models.candidates import candidate_pairs
from gln.models.flat import FlatPairs
from gln.models.mixing import _mix_padded, mix_flat
from gln.models.pairs import SparsePairs

NODES = 23


def both_forms(nodes: int = NODES, nearest: int = 4, seed: int = 0) -> tuple[SparsePairs, FlatPairs]:
    points = torch.rand(1, nodes, 2, generator=torch.Generator().manual_seed(seed))
    sparse = candidate_pairs(points, torch.ones(1, nodes, dtype=torch.bool), nearest, sparse=True)
    assert isinstance(sparse, SparsePairs)
    return sparse, FlatPairs.from_slots(sparse.index, sparse.mask)


def values(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_pairs_in_any_order_and_repeated_become_one_symmetric_list() -> None:
    source, target = np.array([3, 0, 1, 0, 2]), np.array([0, 3, 0, 1, 2])
    pairs = FlatPairs.from_ends(source, target, 5)
    assert list(zip(pairs.source.tolist(), pairs.target.tolist(), strict=True)) == [
        (0, 1),
        (0, 3),
        (1, 0),
        (3, 0),
    ]
    assert pairs.start.tolist() == [0, 2, 3, 3, 4, 4]


def test_every_pair_finds_its_reverse_and_its_place() -> None:
    _, pairs = both_forms()
    assert pairs.reverse(pairs.source).equal(pairs.target)
    assert pairs.reverse(pairs.target).equal(pairs.source)
    ends = torch.stack([pairs.source, pairs.target])
    order = torch.randperm(len(pairs.target))
    assert pairs.places(ends[:, order]).equal(order)


@pytest.mark.parametrize("size", [1, 17, 10**6])
def test_blocks_give_what_the_padded_form_gives(size: int) -> None:
    sparse, pairs = both_forms()
    blocks = list(pairs.blocks(size))
    assert [row for block in blocks for row in range(NODES)[block.rows]] == list(range(NODES))
    node, pair = values(NODES, 2, 3), values(len(pairs.target), 2)
    padded = pair.new_zeros(*sparse.mask.shape, 2)
    padded[sparse.mask] = pair
    for name in ("of_source", "of_target"):
        expected = getattr(sparse, name)(node[None].flatten(2)).expand(*sparse.mask.shape, -1)[sparse.mask]
        assert torch.cat([getattr(block, name)(node.flatten(1)) for block in blocks]).equal(expected)
    expected = sparse.aggregate(padded, node[None])[0]
    torch.testing.assert_close(
        torch.cat([block.aggregate(pair[block.own], node) for block in blocks]), expected
    )
    torch.testing.assert_close(pairs.total(pair[:, 0]), sparse.total(padded[..., 0])[0])
    for block in blocks:
        rows = block.by_row(pair[block.own, 0], 0)
        assert rows.equal(padded[0, block.rows, :, 0][:, : rows.shape[1]])


def test_a_block_has_no_more_pairs_than_asked_for_unless_a_row_has() -> None:
    _, pairs = both_forms()
    most = int(pairs.start.diff().max())
    assert all(block.own.stop - block.own.start <= max(20, most) for block in pairs.blocks(20))


@pytest.mark.parametrize("size", [1, 17, 10**6])
@pytest.mark.parametrize("threads", [1, 3])
def test_the_mixing_equals_three_loops(size: int, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    _, pairs = both_forms()
    read = values(len(pairs.target), 4, 2, 3)
    query, key, first, second = read.unbind(1)
    ends = list(zip(pairs.source.tolist(), pairs.target.tolist(), strict=True))
    at = {ends: number for number, ends in enumerate(ends)}
    mixed, total = torch.zeros(len(ends), 2, 3, dtype=torch.float64), torch.zeros(len(ends), 2).double()
    for (i, j), number in at.items():
        shared = [k for k in range(NODES) if (i, k) in at and (j, k) in at]
        for head in range(2):
            power = [(query[at[i, k], head] @ key[at[j, k], head]).exp() for k in shared]
            norm = 1 + sum(power)
            total[number, head] = torch.as_tensor(norm).log()
            for k, share in zip(shared, power, strict=True):
                mixed[number, head] += share / norm * (first[at[i, k], head] + second[at[j, k], head])
    scratch = torch.full((NODES,), -1)
    for block in pairs.blocks(size):
        near = block.neighbourhood(scratch)
        assert near.position[near.own].equal(torch.arange(len(ends))[block.own])
        for mix in (mix_flat, _mix_padded):
            got = mix(near, read[block.own][:, 0::2], read[near.position][:, 1::2])
            torch.testing.assert_close(got[0], mixed[block.own])
            torch.testing.assert_close(got[1], total[block.own])
    assert (scratch == -1).all()


def test_scores_that_would_overflow_do_not() -> None:
    _, pairs = both_forms()
    (block,) = pairs.blocks(10**6)
    near = block.neighbourhood(torch.full((NODES,), -1))
    large = torch.full((len(pairs.target), 2, 2, 4), 30.0)
    mixed, total = mix_flat(near, large, large)
    assert mixed.isfinite().all()
    assert total.isfinite().all()


def test_the_gpu_kernel_answers_a_block_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the rows around a block it reads keys and seconds, and leaves the rest of them alone."""
    pytest.importorskip("triton", reason="the kernels need Triton")
    from gln.models import fused

    device = "cuda" if torch.cuda.is_available() else "cpu"
    monkeypatch.setattr(
        SparsePairs,
        "mix",
        lambda self, read: fused.mix_sparse(read, self),
    )
    pairs = both_forms(nodes=14, nearest=3)[1].to(torch.device(device))
    read = values(len(pairs.target), 4, 2, 4).float().to(device)
    block = list(pairs.blocks(20))[1]
    near = block.neighbourhood(torch.full((14,), -1, device=device))
    assert near.rows.start > 0
    assert len(near.start) - 1 > near.rows.stop
    given = (near, read[block.own][:, 0::2], read[near.position][:, 1::2])
    got = _mix_padded(*given)
    monkeypatch.undo()
    for one, other in zip(got, _mix_padded(*given), strict=True):
        torch.testing.assert_close(one, other)
