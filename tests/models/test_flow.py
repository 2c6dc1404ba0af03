"""Laws of the flow: what its noise is, what its chain leaves alone, and what it learns."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import networkx as nx
import pytest
import torch
from torch import Tensor

import gln
from gln.errors import GLNError
from gln.families import family
from gln.graphs import GraphBatch
from gln.graphs.check import make_graph
from gln.graphs.record import Graph
from gln.models.chain import Chain, Sampling, drawn_evenly
from gln.models.flow import GraphFlow, resistances

TINY = {"width": 16, "pair_width": 16, "steps": 2}
QUICK = {"progress": False, "accelerator": "cpu"}


def kite() -> Graph:
    """A triangle with a tail."""
    return make_graph(edges=[[0, 1], [1, 2], [2, 0], [2, 3]], num_nodes=4)


@pytest.fixture(scope="module")
def trained() -> GraphFlow:
    torch.manual_seed(0)
    flow = GraphFlow(**TINY, sampling_steps=50, stochasticity=10.0)
    gln.fit(flow, [kite()] * 320, epochs=10, batch_size=16, lr=1e-2, average=0.97, **QUICK)
    return flow


def test_a_flow_trained_on_one_graph_returns_it(trained: GraphFlow) -> None:
    truth = nx.Graph(kite().edges_once().tolist())
    made = [nx.Graph(graph.edge_index.T.tolist()) for graph in trained.sample(200, seed=1)]
    assert sum(nx.is_isomorphic(truth, graph) for graph in made) >= 120  # noise: about ten


def test_time_one_gives_the_data_back() -> None:
    batch = GraphBatch.from_graphs([kite(), kite()])
    flow = GraphFlow(**TINY, marginal=[0.7, 0.3])
    noisy = flow.corrupted(batch.mask, batch.adj.long(), torch.ones(2))
    assert torch.equal(noisy == 1, batch.adj)


def test_time_zero_is_the_marginal_and_half_the_time_half_of_it() -> None:
    torch.manual_seed(0)
    flow = GraphFlow(**TINY, edge_types=2, marginal=[0.6, 0.3, 0.1])
    mask = torch.ones(1, 300, dtype=torch.bool)
    truth = torch.full((1, 300, 300), 2)
    for time, expected in ((0.0, [0.6, 0.3, 0.1]), (0.5, [0.3, 0.15, 0.55])):
        noisy = flow.corrupted(mask, truth, torch.tensor([time]))
        assert torch.equal(noisy, noisy.mT)
        assert not noisy.diagonal(dim1=1, dim2=2).any()
        once = noisy[0][tuple(torch.triu_indices(300, 300, 1))]
        shares = torch.bincount(once, minlength=3) / len(once)
        assert (shares - torch.tensor(expected)).abs().max() < 0.01


@pytest.mark.parametrize("evenly", [False, True])
@pytest.mark.parametrize("stochasticity", [0.0, 5.0, 100.0])
@pytest.mark.parametrize(("steps", "start"), [(4, 0.0), (50, 0.0), (20, 0.6)])
def test_the_chain_has_the_marginals_of_the_noise_at_every_time(
    steps: int, start: float, stochasticity: float, evenly: bool
) -> None:
    """With the exact chances of two equally likely graphs over three nodes, which can be enumerated.

    Pairs are drawn on their own, so only short steps keep what pairs have in common; what every pair has, all keep.
    """
    flow = GraphFlow(**TINY, marginal=[0.4, 0.6])
    sets = [Graph(3)] * 4000
    data = torch.stack([adjacency([(0, 1)]), adjacency([(0, 1), (1, 2)])])  # [2, 3, 3]
    chain = Chain(flow, Sampling(steps, stochasticity, start, evenly=evenly), alike=True)

    def exact(batch: GraphBatch, time: Tensor, states: Tensor) -> Tensor:
        """p(G_1 | G_t) of every pair, by Bayes' rule over the two graphs."""
        t, noise = float(time[0]), flow.marginal
        likely = torch.ones(len(states), 2)
        for i, j in combinations(range(3), 2):
            seen = states[:, i, j]
            likely *= t * (seen[:, None] == data[:, i, j]) + (1 - t) * noise[seen][:, None]
        weight = likely / likely.sum(1, keepdim=True)
        edge = torch.einsum("bg,gij->bij", weight, data.float())
        return torch.stack([1 - edge, edge], dim=-1)

    chain.chances = exact  # type: ignore[method-assign]
    times = chain.how.times()
    for time, (_, states) in zip(times, chain.run(sets, torch.Generator().manual_seed(0)), strict=True):
        if time == 1:  # the last step takes the more likely state
            continue
        expected = time * data.float().mean(0) + (1 - time) * 0.6
        for i, j in combinations(range(3), 2):
            assert abs(float(states[:, i, j].float().mean()) - float(expected[i, j])) < 0.03


def adjacency(pairs: list[tuple[int, int]]) -> Tensor:
    a = torch.zeros(3, 3, dtype=torch.long)
    for i, j in pairs:
        a[i, j] = a[j, i] = 1
    return a


def test_permuting_the_nodes_permutes_the_chances() -> None:
    torch.manual_seed(0)
    flow = GraphFlow(in_channels=2, **TINY, resistance=True).eval()
    batch = GraphBatch(
        None, torch.randn(1, 7, 2), torch.zeros(1, 7, 7, dtype=bool), torch.ones(1, 7, dtype=bool)
    )
    noisy = flow.corrupted(batch.mask, None, torch.zeros(1))
    order = torch.randperm(7)
    turned = GraphBatch(None, batch.x[:, order], batch.adj, batch.mask)
    time = torch.tensor([0.3])
    with torch.no_grad():
        one = flow.chances(batch, time, noisy)
        two = flow.chances(turned, time, noisy[:, order][:, :, order])
    assert torch.allclose(one[:, order][:, :, order], two, atol=1e-5)


def test_padding_changes_nothing() -> None:
    torch.manual_seed(0)
    flow = GraphFlow(**TINY, resistance=True).eval()
    small, large = (GraphBatch.from_graphs([kite()], edges=False, nodes=n) for n in (4, 7))
    noisy = flow.corrupted(small.mask, None, torch.zeros(1))
    wide = torch.nn.functional.pad(noisy, (0, 3, 0, 3))
    with torch.no_grad():
        one, two = flow.chances(small, torch.ones(1), noisy), flow.chances(large, torch.ones(1), wide)
    assert torch.allclose(one, two[:, :4, :4], atol=1e-5)


def test_resistances_are_those_of_the_connected_parts() -> None:
    graph = nx.disjoint_union(nx.gnp_random_graph(9, 0.4, seed=2), nx.path_graph(5))
    parts = [*nx.connected_components(graph)]
    degree, share, r = resistances(torch.from_numpy(nx.to_numpy_array(graph))[None])
    assert degree[0].tolist() == [count for _, count in graph.degree]
    for part in parts:
        inside = graph.subgraph(part)
        for i, j in combinations(sorted(part), 2):
            assert float(r[0, i, j]) == pytest.approx(nx.resistance_distance(inside, i, j), rel=1e-2)
        assert share[0, sorted(part)].tolist() == pytest.approx([1 / len(part)] * len(part), rel=1e-2)
    assert float(r[0, 0, 13]) > 1000


def test_it_says_how_many_nodes_its_training_graphs_had(trained: GraphFlow) -> None:
    assert {graph.num_nodes for graph in trained.sample(5, steps=2)} == {4}
    assert {graph.num_nodes for graph in trained.sample(2, nodes=9, steps=2)} == {9}
    assert trained.config["marginal"] == pytest.approx([1 / 3, 2 / 3])


def test_saved_and_loaded_it_draws_the_same(trained: GraphFlow, tmp_path: Path) -> None:
    loaded = gln.load(gln.save(trained, tmp_path))
    for one, two in zip(trained.sample(4, seed=3), loaded.sample(4, seed=3), strict=True):
        assert torch.equal(one.edge_index, two.edge_index)


def test_a_flow_saved_before_walks_were_gone_still_loads(trained: GraphFlow, tmp_path: Path) -> None:
    facts = gln.save(trained, tmp_path) / "model.json"
    facts.write_text(facts.read_text().replace('"late"', '"walks": 0, "late"'))
    assert "walks" in facts.read_text()
    assert "walks" not in gln.load(tmp_path).config


def test_over_given_nodes() -> None:
    flow = GraphFlow(pos_channels=2, **TINY)
    points = torch.rand(6, 2)
    gln.fit(flow, [make_graph(points, edges=[[0, 1], [2, 3]])] * 4, epochs=1, batch_size=4, **QUICK)
    graphs = flow.sample(nodes=points.numpy(), count=3, steps=3)
    assert len(graphs) == 3
    assert all(torch.equal(graph.pos, points) for graph in graphs)
    with pytest.raises(GLNError, match="give nodes="):
        flow.sample(2)
    assert gln.predict(flow, points).num_nodes == 6


def test_types_of_edges_and_what_is_kept_on_the_way() -> None:
    flow = GraphFlow(edge_types=3, **TINY)
    graph = make_graph(edges=[[0, 1], [1, 2], [0, 3]], num_nodes=4, edge_type=torch.tensor([0, 1, 2]))
    gln.fit(flow, [graph] * 8, epochs=1, batch_size=4, **QUICK)
    for made in flow.sample(3, steps=6, keep=3):
        assert len(made.forming) == 4  # the noise first
        assert torch.equal(made.forming[-1], made.edge_index)
        assert len(made.edge_type) == made.num_edges


def test_a_directed_flow() -> None:
    flow = GraphFlow(directed=True, marginal=[0.5, 0.5], **TINY)
    noisy = flow.corrupted(torch.ones(1, 30, dtype=torch.bool), None, torch.zeros(1))
    assert not torch.equal(noisy, noisy.mT)
    assert flow.sample(1, nodes=5, steps=2)[0].directed


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"steps": 0}, "steps=0"),
        ({"stochasticity": -1.0}, "stochasticity=-1.0"),
        ({"lateness": 0.5}, "lateness=0.5"),
        ({"start": 1.0}, "start=1.0; expected a time below 1"),
        ({"evenly": "no"}, "evenly='no'; expected true or false"),
    ],
)
def test_mistakes_are_answered_in_a_sentence(wrong: dict, words: str) -> None:
    with pytest.raises(GLNError, match=words):
        GraphFlow(**TINY).sample(1, nodes=4, **wrong)


def test_untrained_it_does_not_know_how_many_nodes() -> None:
    with pytest.raises(GLNError, match="give nodes="):
        GraphFlow(**TINY).sample(1)


@pytest.mark.parametrize("sizes", [[[4]], [[0, 1]], [[10**9, 1]], [[4, -1]]])
def test_sizes_that_no_graphs_have_get_a_sentence(sizes: list[list[int]]) -> None:
    flow = GraphFlow(**TINY)
    flow.training_facts = {"noise": {"sizes": sizes}}
    with pytest.raises(GLNError, match="sizes that no graphs have"):
        flow.sample(1)


def test_a_stopped_run_ends_with_the_same_bits(tmp_path: Path) -> None:
    graphs = family("tree", nodes=6).graphs(24)

    def flow() -> GraphFlow:
        torch.manual_seed(0)
        return GraphFlow(**TINY)

    how = {"batch_size": 8, "average": 0.9, **QUICK}
    whole, parts = flow(), flow()
    gln.fit(whole, graphs, epochs=4, schedule="constant", warmup=0, **how)
    gln.fit(flow(), graphs, epochs=2, schedule="constant", warmup=0, run=tmp_path, **how)
    gln.fit(parts, graphs, epochs=4, schedule="constant", warmup=0, run=tmp_path, resume=True, **how)
    for one, two in zip(whole.parameters(), parts.parameters(), strict=True):
        assert torch.equal(one, two)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu_steps_are_replayed_and_graphs_drawn(tmp_path: Path) -> None:
    graphs = family("tree", nodes=12).graphs(64)
    torch.manual_seed(0)
    flow = GraphFlow(width=32, pair_width=32, steps=2, resistance=True)
    result = gln.fit(flow, graphs * 8, epochs=3, batch_size=16, run=tmp_path, progress=False)
    assert result.history[-1]["train_loss"] < result.history[0]["train_loss"]
    made = gln.load(tmp_path).cuda().sample(20, steps=10)
    assert len(made) == 20
    assert all(graph.is_undirected() for graph in made if graph.num_edges)


def test_drawn_evenly_as_often_as_alone_and_as_many_as_expected() -> None:
    torch.manual_seed(0)
    chances = torch.tensor([0.5, 0.0, 0.9, 0.3, 1.0, 0.05, 0.45])  # their sum is 3.2
    drawn = drawn_evenly(chances.expand(20_000, -1), torch.rand(20_000))
    assert (drawn.double().mean(0) - chances).abs().max() < 0.015
    assert set(drawn.sum(1).tolist()) == {3, 4}


@pytest.mark.parametrize("directed", [False, True])
def test_pairs_change_evenly_with_their_chances(directed: bool) -> None:
    torch.manual_seed(0)
    flow = GraphFlow(directed=directed, **TINY)
    chances = flow.uniform(torch.ones(1, 5, dtype=torch.bool))[0].fill_diagonal_(0) / 3
    changed = flow.evenly(chances.expand(20_000, -1, -1))
    assert (changed.double().mean(0) - chances).abs().max() < 0.015
    assert directed or torch.equal(changed, changed.mT)
    total = chances.sum() if directed else chances.sum() / 2
    counts = changed.sum((1, 2)) if directed else changed.sum((1, 2)) // 2
    assert set(counts.tolist()) <= {int(total), int(total) + 1}


def test_steps_begin_after_the_start_and_end_at_one() -> None:
    times = Sampling(4, 0.0, start=0.6, lateness=1.0).times()
    assert times == pytest.approx([0, 0.7, 0.8, 0.9, 1])
