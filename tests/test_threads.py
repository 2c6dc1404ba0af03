"""How many threads compute, and how they wait."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
import torch

from gln.graphs import make_graph
from gln.inference.choice import Choice
from gln.inference.predict import predict_graphs
from gln.models import GLN
from gln.threads import PAIRS, at_most, at_once, threads_for


@pytest.fixture(autouse=True)
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def test_the_number_of_threads_is_restored() -> None:
    with at_most(1):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 3
    with pytest.raises(ZeroDivisionError), at_most(2):
        1 / 0  # noqa: B018
    assert torch.get_num_threads() == 3

    both_inside = Barrier(2)

    def work(_: int) -> None:
        with at_most(1):
            both_inside.wait(timeout=10)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, range(2)))
    assert torch.get_num_threads() == 3


def test_no_more_threads_than_there_are() -> None:
    with at_most(8):
        assert torch.get_num_threads() == 3


def test_every_thread_has_enough_pairs() -> None:
    assert threads_for(1, 2) == threads_for(2 * PAIRS // 100 - 1, 10) == 1
    assert threads_for(1 + 2 * PAIRS // 100, 10) == 2
    assert threads_for(100, 128) == 3  # as many as there are


def test_a_small_prediction_is_made_by_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    model, used = GLN(in_channels=0, pos_channels=2, width=8, pair_width=8, steps=1), []
    forward = model.forward
    monkeypatch.setattr(
        model,
        "forward",
        lambda *given, **more: used.append(torch.get_num_threads()) or forward(*given, **more),
    )
    for nodes in (5, 128):
        predict_graphs(model, [make_graph(pos=torch.rand(nodes, 2))])
    assert used == [1, 2]
    assert torch.get_num_threads() == 3


def test_calls_at_once_come_in_order_with_one_thread_each_and_end_at_a_mistake() -> None:
    both_inside = Barrier(2)

    def work(number: int) -> tuple[int, int]:
        both_inside.wait(timeout=10)  # passes only if two are at work
        return number, torch.get_num_threads()

    assert list(at_once(work, range(6), 2, 1)) == [(number, 1) for number in range(6)]
    assert torch.get_num_threads() == 3

    with pytest.raises(ZeroDivisionError):
        list(at_once(lambda number: 1 / number, [2, 1, 0, 1], 2, 1))
    assert torch.get_num_threads() == 3


@pytest.mark.parametrize(("sets", "used"), [(2, [1, 1]), (1, [3]), (4, [1] * 4)])
def test_large_batches_share_all_threads(sets: int, used: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    model, seen = GLN(pos_channels=2, width=8, pair_width=8, steps=1), []
    forward = model.forward
    monkeypatch.setattr(
        model,
        "forward",
        lambda *given, **more: seen.append(torch.get_num_threads()) or forward(*given, **more),
    )
    graphs = [make_graph(pos=torch.rand(250, 2)) for _ in range(sets)]  # one to a batch
    predict_graphs(model, graphs, Choice(batch_size=1))
    assert seen == used


def test_two_large_batches_have_two_threads_each() -> None:
    torch.set_num_threads(4)
    assert set(at_once(lambda _: torch.get_num_threads(), range(2), 2, 2)) == {2}
    assert torch.get_num_threads() == 4


def test_batches_predicted_at_once_are_those_predicted_one_by_one() -> None:
    torch.manual_seed(0)
    model = GLN(pos_channels=2, width=8, pair_width=8, steps=2)
    sets = [make_graph(pos=torch.rand(nodes, 2)) for nodes in (9, 3, 12, 5, 7, 3, 8)]
    some = Choice(threshold=0.0, batch_size=2)
    several = predict_graphs(model, sets, some)
    with at_most(1):
        alone = predict_graphs(model, sets, some)
    for ours, theirs in zip(several, alone, strict=True):
        assert torch.equal(ours.edge_index, theirs.edge_index)
        assert torch.equal(ours.edge_prob, theirs.edge_prob)


@pytest.mark.parametrize(
    ("chosen", "policy"),
    [({}, "PASSIVE"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE"), ({"GOMP_SPINCOUNT": "9"}, "None")],
)
def test_threads_wait_asleep_unless_the_user_chose(chosen: dict[str, str], policy: str) -> None:
    known = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
    env = {name: value for name, value in os.environ.items() if name not in known} | chosen
    program = (
        "import gln, os, sys; print(os.environ.get('OMP_WAIT_POLICY')); assert 'torch' not in sys.modules"
    )
    said = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True
    )
    assert said.stdout.strip() == policy
