"""GraphRNN as a whole: it learns, goes on where it stopped, and samples connected graphs."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import pytest
import torch

import gln
from gln.errors import GLNError
from gln.graphs import make_graph
from gln.training.progress import Progress
from reproduction.baselines import GraphRNN, graphrnn

TINY = {"hidden": 8, "embedding": 4, "edge_hidden": 4, "edge_embedding": 2, "layers": 2, "orders": 20}
SHORT = {"epochs": 4, "batches": 2, "batch_size": 4}


def communities() -> list:
    return gln.family("community", size=4).sample(8, seed=0)


def test_a_family_of_one_graph_is_recovered() -> None:
    ladder = nx.ladder_graph(3)
    model = GraphRNN(
        hidden=64, embedding=32, edge_hidden=32, edge_embedding=16, layers=1, epochs=10, lr=0.02, orders=200
    )
    drawn = model.fit([gln.as_graph(ladder)]).sample(100, seed=0)
    distance = gln.mmd([ladder] * 20, drawn)  # the floor of one graph is 0
    assert max(distance.values()) < 0.01
    assert sum(nx.is_isomorphic(gln.to_networkx(graph), ladder) for graph in drawn) > 80


@pytest.mark.parametrize("variant", ["rnn", "mlp"])
def test_sampled_graphs_are_connected_and_no_larger_than_those_learned(variant: str) -> None:
    model = GraphRNN(variant=variant, **TINY, **SHORT).fit(communities())
    drawn = model.sample(30, seed=1)
    assert len(drawn) == 30
    assert all(nx.is_connected(gln.to_networkx(graph)) for graph in drawn)
    assert 1 < max(graph.num_nodes for graph in drawn) <= 8
    few = model.sample(7, seed=1)
    assert [graph.num_nodes for graph in few] == [graph.num_nodes for graph in drawn[:7]]


def test_a_killed_run_goes_on_to_the_same_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = GraphRNN(**TINY, **SHORT).fit(communities(), seed=5)
    monkeypatch.setattr(graphrnn, "CHECKPOINT_SECONDS", -1)  # after every epoch
    plain = GraphRNN._epoch

    def killed(*args):  # type: ignore[no-untyped-def]
        if args[4] == 2:
            raise KeyboardInterrupt
        return plain(*args)

    monkeypatch.setattr(GraphRNN, "_epoch", killed)
    with pytest.raises(KeyboardInterrupt):
        GraphRNN(**TINY, **SHORT).fit(communities(), seed=5, folder=tmp_path)
    done: list[int] = []
    monkeypatch.setattr(GraphRNN, "_epoch", lambda *args: (done.append(args[4]), plain(*args))[1])
    resumed = GraphRNN(**TINY, **SHORT).fit(communities(), seed=5, folder=tmp_path)
    assert done == [2, 3]
    assert [row["loss"] for row in resumed.history_] == [row["loss"] for row in whole.history_]
    expected = whole.state()
    assert all(torch.equal(expected[name], value) for name, value in resumed.state().items())


def test_another_run_in_the_folder_is_not_mixed_in(tmp_path: Path) -> None:
    GraphRNN(**TINY, **SHORT).fit(communities(), folder=tmp_path)
    for settings, graphs, seed, message in (
        ({"variant": "mlp"}, communities(), 0, "variant='rnn', now it is 'mlp'"),
        ({}, communities(), 1, "seed=0, now it is 1"),
        ({}, communities()[:5], 0, "The graphs differ"),
    ):
        with pytest.raises(GLNError, match=message):
            GraphRNN(**(TINY | SHORT | settings)).fit(graphs, seed=seed, folder=tmp_path)
    longer = GraphRNN(**(TINY | SHORT | {"epochs": 5})).fit(communities(), folder=tmp_path)
    assert len(longer.history_) == 5
    with pytest.raises(GLNError, match="trained for 5 epochs, now epochs=4; resume with as many or more"):
        GraphRNN(**TINY, **SHORT).fit(communities(), folder=tmp_path)


def test_the_rate_falls_with_the_epochs_or_with_the_time() -> None:
    model = GraphRNN(epochs=3000, lr=1.0, minutes=10)
    for epoch, seconds, rate in ((0, 0, 1), (399, 0, 1), (400, 0, 0.3), (1000, 0, 0.09), (0, 100, 0.3)):
        at = Progress(epoch=epoch, seconds=seconds)
        assert model._rate(at) == pytest.approx(rate)
    assert model._done(Progress(epoch=3000)) == 1
    assert model._done(Progress(epoch=5, seconds=601)) >= 1


def test_time_ends_training() -> None:
    model = GraphRNN(**TINY, epochs=10**6, batches=1, batch_size=2, minutes=0.01).fit(communities())
    assert 1 <= len(model.history_) < 10**5
    assert model.history_[-1]["seconds"] < 5


def test_graphs_without_edges_are_refused() -> None:
    with pytest.raises(GLNError, match="None of the 1 graphs has an edge"):
        GraphRNN(**TINY).fit([make_graph(num_nodes=3)])
