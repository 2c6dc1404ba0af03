"""Points in, graphs out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data

import gln
from gln.errors import GLNError
from gln.graphs import GraphBatch, check_graph, make_graph
from gln.graphs.features import feature_noise
from gln.graphs.record import Graph
from gln.inference.evaluate import evaluate
from gln.inference.generate import generate
from gln.inference.predict import answers_of, outputs, predict
from gln.models import GLN, StructureOutput
from gln.storage.models import save
from tests.conftest import assert_same_graph, no_matrix
from tests.training.tiny import Tiny, graphs, tiny

MODEL, GRAPHS = tiny(), graphs(9)


def test_the_answer_is_a_graph_with_the_probability_of_every_edge() -> None:
    for graph in GRAPHS:
        answer = predict(MODEL, graph, threshold=0.4)
        check_graph(answer)  # undirected, sorted, no self-loops
        assert torch.equal(answer.pos, graph.pos)
        assert answer.edge_prob.shape == (answer.num_edges,)
        everything = predict(MODEL, graph, threshold=0.0)
        n = graph.num_nodes
        assert everything.num_edges == n * (n - 1)
        soft = torch.zeros(n, n).index_put(tuple(everything.edge_index), everything.edge_prob)
        assert torch.equal(soft, soft.T)
        assert torch.equal(answer.edge_index, (soft >= 0.4).nonzero().T)
        assert torch.equal(answer.edge_prob, soft[tuple(answer.edge_index)])


def test_the_threshold_of_the_model_is_used_unless_another_is_given() -> None:
    model = tiny()
    model.threshold = 0.71
    assert_same_graph(predict(model, GRAPHS[0]), predict(MODEL, GRAPHS[0], threshold=0.71))
    assert_same_graph(predict(model, GRAPHS[0], threshold=0.5), predict(MODEL, GRAPHS[0]))


def test_arrays_tensors_data_and_lists_of_them_are_the_same_points() -> None:
    pos = GRAPHS[0].pos
    expected = predict(MODEL, pos)
    assert_same_graph(predict(MODEL, pos.numpy()), expected)
    assert_same_graph(predict(MODEL, pos.double().numpy()), expected)
    assert_same_graph(predict(MODEL, Data(pos=pos)), expected)
    for answer in predict(MODEL, [pos, pos.numpy(), GRAPHS[0]]):
        assert_same_graph(answer, expected)
    assert predict(MODEL, []) == []


def test_a_weighted_network_is_as_good_as_its_points() -> None:
    karate = nx.karate_club_graph()
    places = {node: place.tolist() for node, place in nx.spring_layout(karate, seed=0).items()}
    nx.set_node_attributes(karate, places, "pos")
    with pytest.warns(UserWarning, match="edge_weight is not looked at here"):
        answer = predict(MODEL, karate)
    assert_same_graph(answer, predict(MODEL, torch.tensor([places[node] for node in range(34)])))


def test_rows_and_frames_are_what_the_model_reads_and_a_name_is_a_model(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    torch.manual_seed(1)
    table = np.random.default_rng(0).random((7, 5)).astype(np.float32)
    frame = pd.DataFrame(table, columns=["x", "y", "mass", "age", "size"]).assign(id=range(7), name="n")
    for pos, x in ((2, 3), (0, 5), (5, 0)):
        model = GLN(x, pos, width=8, pair_width=8, steps=1).eval()
        parts = {"pos": table[:, :pos] if pos else None, "x": table[:, pos:] if x else None}
        expected = predict(model, make_graph(**parts).to_data(), threshold=0.0)
        for points in (table, torch.from_numpy(table), table.tolist(), frame):
            assert_same_graph(predict(model, points, threshold=0.0), expected)
    by_name = GLN(3, 2, width=8, pair_width=8, steps=1).eval()
    turned = frame[["mass", "y", "age", "x", "size"]]
    assert_same_graph(predict(by_name, turned, threshold=0.0), predict(by_name, frame, threshold=0.0))
    save(model, tmp_path / "saved")
    for name in (tmp_path / "saved", str(tmp_path / "saved")):
        assert_same_graph(predict(name, table, threshold=0.0), expected)
    several = predict(model, [table.tolist(), table], threshold=0.0)
    assert len(several) == 2
    assert_same_graph(several[0], several[1])
    with pytest.raises(GLNError, match="no shipped model of that name"):
        predict("delauney", table)


def test_large_positions_come_back_as_they_were_given() -> None:
    small = np.random.default_rng(0).random((30, 2))
    large = small + np.array([691_607.25, 5_334_759.5])
    near, far = (predict("delaunay-small", points) for points in (small, large))
    assert torch.equal(near.edge_index, far.edge_index)
    assert far.pos.dtype == torch.float64
    assert np.abs(far.pos.numpy() - large).max() < 1e-6
    assert "origin" not in far


def test_a_list_is_answered_in_order_whatever_the_batches() -> None:
    alone = [predict(MODEL, graph) for graph in GRAPHS]
    for batch_size in (1, 2, 32):
        for one, other in zip(alone, predict(MODEL, GRAPHS, batch_size=batch_size), strict=True):
            assert torch.equal(one.pos, other.pos)
            assert torch.equal(one.edge_index, other.edge_index)
            assert torch.allclose(one.edge_prob, other.edge_prob, atol=1e-6)


@pytest.mark.parametrize("known", [None, True])
def test_a_pyg_batch_is_the_list_of_its_graphs(known: bool | None) -> None:
    batch = Batch.from_data_list([graph.to_data() for graph in GRAPHS])
    batches = [batch]
    if not known:  # only then do edges matter, and how the batch was made
        changed = batch.clone()
        changed.edge_index = changed.edge_index[:, :4]
        batches += [changed, Batch(pos=batch.pos, batch=batch.batch)]
    for some in batches:
        for one, other in zip(
            predict(MODEL, some, known=known), predict(MODEL, GRAPHS, known=known), strict=True
        ):
            assert_same_graph(one, other)


def test_given_edges_are_looked_at_only_when_they_are_known() -> None:
    graph = GRAPHS[0]
    other = make_graph(graph.pos, edges=[[0, 1]])
    assert_same_graph(predict(MODEL, graph), predict(MODEL, other))
    known = predict(MODEL, graph, known=True)
    pairs = graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]].T
    assert_same_graph(known, predict(MODEL, graph.pos, known=pairs))
    assert_same_graph(known, predict(MODEL, [graph], known=[pairs.numpy()])[0])
    assert known.num_edges >= graph.num_edges  # this model adds to what it starts from
    assert not torch.equal(known.edge_prob, predict(MODEL, graph).edge_prob)


def test_the_model_is_left_as_it_was() -> None:
    model = tiny()
    model.train()
    first = predict(model, GRAPHS)
    assert model.training
    for one, other in zip(first, predict(model.eval(), GRAPHS), strict=True):
        assert_same_graph(one, other)  # no dropout


class Cheat(Tiny):
    """Answers with the truth, if it is shown."""

    def forward(self, batch: GraphBatch, initial: Any = None, steps: Any = None) -> StructureOutput:
        return StructureOutput((batch.adj.float() - 0.5,), (batch.features,), batch.pair_mask)


def test_no_model_is_shown_the_truth() -> None:
    assert any(graph.num_edges for graph in GRAPHS)
    for _, _, output in outputs(Cheat(), GRAPHS):
        assert (output.soft_adjacency() < 0.5).all()


class Baseline:
    """Joins everything, or says how likely it is."""

    def __init__(self, probability: float | None = None) -> None:
        self.probability = probability

    def predict(self, points: Data) -> Data:
        assert points.edge_index.numel() == 0
        n = points.num_nodes
        graph = make_graph(points.pos, edges=[(i, j) for i in range(n) for j in range(i)])
        if self.probability is not None:
            graph.edge_prob = torch.full((graph.num_edges,), self.probability)
        return graph

    def sample(self, count: int, seed: int = 0) -> list[Data]:
        return graphs(count, seed)


def test_baselines_answer_the_same_calls() -> None:
    answer = predict(Baseline(), GRAPHS)[3]
    assert torch.equal(answer.edge_prob, torch.ones(answer.num_edges))
    assert predict(Baseline(0.4), GRAPHS[0], threshold=0.5).num_edges == 0
    assert predict(Baseline(0.4), GRAPHS[0]).num_edges > 0
    scores = evaluate(Baseline(), GRAPHS)
    assert scores["recall"] == 1
    assert scores["iou"] < 1
    assert_same_graph(generate(Baseline(), 2, seed=3)[1], graphs(2, 3)[1])


@pytest.mark.parametrize(
    ("points", "options", "words"),
    [
        ("points", {}, "Got a str"),
        (np.zeros(3), {}, r"shape \[3\]"),
        (np.zeros((3, 2)), {"known": True}, "reads the edges of a Data"),
        ([np.zeros((3, 2))], {"known": []}, "0 of 1 sets"),
        (Data(pos=torch.zeros(3, 2)), {"known": True}, "no edge_index"),
        (np.full((3, 2), np.nan), {}, "not finite"),
    ],
)
def test_a_mistake_is_one_sentence(points: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(GLNError, match=words):
        predict(MODEL, points, **options)


def test_what_is_no_model_is_told() -> None:
    for call in (predict, evaluate):
        with pytest.raises(GLNError, match="Got a int"):
            call(3, GRAPHS)  # type: ignore[operator]
    with pytest.raises(GLNError, match="does not take known, steps"):
        predict(Baseline(), GRAPHS, steps=3)


def test_evaluate_scores_what_predict_predicts() -> None:
    from gln.evaluation.edges import edge_scores
    from gln.evaluation.mmd import mmd

    model = tiny()
    model.threshold = 0.4
    scores = evaluate(model, GRAPHS, batch_size=4)
    predicted = predict(model, GRAPHS)
    for name, value in edge_scores(GRAPHS, predicted).items():
        if name != "average_precision":  # which also ranks the pairs below the threshold
            assert scores[name] == pytest.approx(value, abs=1e-6), name
    for name, value in mmd(GRAPHS, predicted).items():
        assert scores[f"mmd_{name}"] == pytest.approx(value)
    assert "IoU ↑" in str(scores)
    assert "threshold 0.40" in str(scores)


def test_generated_graphs_have_the_size_and_scale_of_the_training_graphs() -> None:
    model = tiny()
    model.training_facts = {"noise": feature_noise(GRAPHS)}  # as fit leaves it
    made = generate(model, 400, seed=1)
    assert {graph.num_nodes for graph in made} == {graph.num_nodes for graph in GRAPHS}
    rows, real = (torch.cat([graph.pos for graph in part]) for part in (made, GRAPHS))
    assert torch.allclose(rows.mean(0), real.mean(0), atol=0.1)
    assert torch.allclose(rows.std(0), real.std(0, correction=0), atol=0.1)
    for one, other in zip(generate(model, 3, seed=1), made, strict=False):
        assert torch.equal(one.pos, other.pos)
        assert torch.equal(one.edge_index, other.edge_index)
    assert not torch.equal(generate(model, 1, seed=2)[0].pos[:4], made[0].pos[:4])
    assert_same_graph(generate(MODEL, 1, seed=1, like=GRAPHS)[0], generate(model, 1, seed=1)[0])


def test_a_model_that_never_trained_needs_to_be_shown_graphs() -> None:
    with pytest.raises(GLNError, match="give like= graphs"):
        generate(tiny(), 1)


@pytest.mark.parametrize("wrong", [{"count": 0}, {"count": 2.5}, {"count": 1, "seed": -1}])
def test_generate_needs_whole_numbers(wrong: dict[str, Any]) -> None:
    with pytest.raises(GLNError, match=f"{list(wrong)[-1]}={list(wrong.values())[-1]}; expected"):
        generate(tiny(), like=GRAPHS, **wrong)


def sparse_output(seed: int, nodes: int = 6, slots: int = 3) -> StructureOutput:
    """Scores over random candidates, some of them one way only, some empty, of two graphs."""
    rng = torch.Generator().manual_seed(seed)
    candidates = torch.stack(
        [torch.randperm(nodes, generator=rng)[:slots].sort().values for _ in range(2 * nodes)]
    ).view(2, nodes, slots)
    mask = torch.rand(2, nodes, slots, generator=rng) < 0.8
    mask &= candidates != torch.arange(nodes)[None, :, None]
    logits = torch.randn(2, nodes, slots, generator=rng)
    return StructureOutput((logits,), (torch.zeros(2, nodes, 1),), mask, candidates)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("threshold", [0.2, 0.5])
def test_candidates_give_the_edges_that_their_matrix_would(seed: int, threshold: float) -> None:
    output = sparse_output(seed)
    soft = output.soft_adjacency()
    graphs = [Graph(soft.shape[1])] * len(soft)
    for found, matrix in zip(answers_of(output, graphs, threshold), soft, strict=True):
        expected = (matrix >= threshold).nonzero().T
        assert torch.equal(found["edge_index"], expected)
        assert torch.equal(found["edge_prob"], matrix[expected[0], expected[1]])


def test_candidates_never_become_a_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a matrix of all pairs was asked for")

    torch.manual_seed(0)
    model = GLN(0, 2, width=8, pair_width=8, steps=1, candidates=4).eval()
    points = np.random.default_rng(0).random((300, 2))
    expected = predict(model, points, threshold=0.0)
    monkeypatch.setattr(StructureOutput, "probabilities", refuse)
    monkeypatch.setattr("gln.graphs.batch._filled", no_matrix)
    assert_same_graph(predict(model, points, threshold=0.0), expected)
    degree = torch.bincount(expected.edge_index[0], minlength=300)
    assert degree.min() >= 4  # every scored pair, and
    assert degree.max() < 40  # no other


@pytest.mark.parametrize("known", [False, True])
def test_sets_streamed_by_blocks_have_the_edges_of_the_whole(
    known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    model = GLN(0, 2, width=8, pair_width=8, steps=2, candidates=4)
    rng = np.random.default_rng(0)
    sets: list[Any] = [rng.random((nodes, 2)) for nodes in (150, 7, 200)]
    edges = [np.array([[0, 1], [2, 6]])] * 3 if known else None
    options: dict[str, Any] = {"threshold": 0.5, "known": edges, "steps": 1}
    expected = predict(model, sets, **options)
    monkeypatch.setattr("gln.inference.predict.LARGE", 100)
    monkeypatch.setattr("gln.graphs.batch._filled", no_matrix)
    answers = predict(model, sets, **options)
    assert model.training
    for one, other in zip(answers, expected, strict=True):
        check_graph(one)
        assert_same_graph(one, other)
        torch.testing.assert_close(one.edge_prob, other.edge_prob, rtol=0, atol=1e-6)
    fewer = predict(model, sets[0], threshold=0.0, candidates=2)
    assert fewer.num_edges < predict(model, sets[0], threshold=0.0).num_edges
    torch.nn.init.constant_(model.blocks[-1].score[1].weight, torch.nan)
    with pytest.raises(GLNError, match="NaN"):
        predict(model, sets[0])


def test_candidates_are_for_models_that_have_them() -> None:
    points = np.random.default_rng(0).random((9, 2))
    with pytest.raises(GLNError, match="Tiny scores all pairs"):
        predict(MODEL, points, candidates=3)
    with pytest.raises(GLNError, match="Baseline does not take"):
        predict(Baseline(), points, candidates=3)


def test_candidates_that_are_asked_for_are_those_of_small_sets_too() -> None:
    model = GLN(0, 2, width=8, pair_width=8, steps=1)
    sets = [np.random.default_rng(seed).random((count, 2)) for seed, count in enumerate((4, 12, 30))]
    for points, few, usual in zip(
        sets,
        predict(model, sets, threshold=0.0, candidates=3),
        predict(model, sets, threshold=0.0),
        strict=True,
    ):
        nearest = np.linalg.norm(points[:, None] - points, axis=-1).argsort()[:, 1:4]
        expected = {(i, j) for i, near in enumerate(nearest.tolist()) for j in near}
        assert set(map(tuple, few.edge_index.T.tolist())) == expected | {(j, i) for i, j in expected}
        assert usual.num_edges == len(points) * (len(points) - 1)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_the_strongest_edges_of_every_node_stay(count: int) -> None:
    for number, graph in enumerate(GRAPHS):
        everything = predict(MODEL, graph, threshold=0.2)
        nodes = range(graph.num_nodes)
        prob = dict(
            zip(map(tuple, everything.edge_index.T.tolist()), everything.edge_prob.tolist(), strict=True)
        )
        kept = set()
        for i in nodes:
            mine = sorted((p for (a, _), p in prob.items() if a == i), reverse=True)
            kept |= {
                pair
                for (a, b), p in prob.items()
                if a == i and p >= mine[:count][-1]
                for pair in ((a, b), (b, a))
            }
        answer = predict(MODEL, graph, threshold=0.2, top_k=count)
        check_graph(answer)
        assert set(map(tuple, answer.edge_index.T.tolist())) == kept, number
        assert all(
            prob[a, b] == p
            for (a, b), p in zip(answer.edge_index.T.tolist(), answer.edge_prob.tolist(), strict=True)
        )
    assert (
        predict(Baseline(0.4), GRAPHS[0], top_k=1).num_edges == predict(Baseline(), GRAPHS[0]).num_edges
    )  # all tie
    assert predict(MODEL, GRAPHS[0], threshold=1.0, top_k=3).num_edges == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"threshold": 1.5}, "threshold=1.5"),
        ({"top_k": 0}, "top_k=0"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"candidates": 0}, "candidates=0"),
        ({"top_k": 1.5}, "top_k=1.5; expected a whole number"),
        ({"batch_size": "all"}, "batch_size='all'"),
    ],
)
def test_a_choice_that_makes_no_sense_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(GLNError, match=words):
        predict(MODEL, GRAPHS, **options)


def test_threads_that_predict_leave_the_mode_of_the_model_alone() -> None:
    import threading
    from concurrent.futures import ThreadPoolExecutor

    model, together = gln.GLN(width=8, pair_width=8, kernels=2, steps=1).train(), threading.Barrier(4)
    model.blocks[0].eval()
    points = torch.rand(6, 2)
    expected = gln.predict(model, points)
    assert model.training
    seen = []
    model.register_forward_pre_hook(lambda *_: seen.append(model.training))

    def ask(_: int) -> bool:
        together.wait()
        return all(gln.predict(model, points).edge_prob.equal(expected.edge_prob) for _ in range(5))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(ask, range(4)))
    assert not any(seen)
    assert model.training
    assert not model.blocks[0].training
