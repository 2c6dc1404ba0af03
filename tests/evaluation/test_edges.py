"""Edge scores equal counting by hand, whatever the padding, the batches and the number of processes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import hypothesis.strategies as st
import networkx as nx
import pytest
import torch
from hypothesis import given
from torch import Tensor
from torch.nn.functional import pad
from torch_geometric.data import Data

from gln.errors import GLNError
from gln.evaluation import EdgeScores, edge_scores, segmentation_scores
from gln.graphs import GraphBatch, make_graph
from tests.conftest import graphs


@pytest.mark.parametrize("names", [range(4), "dbca", [(0, 1), (1, 1), (0, 0), (1, 0)]])
def test_networkx_graphs_are_compared_by_their_labels(names: Sequence[Any]) -> None:
    true, same = nx.path_graph(names), nx.Graph()
    same.add_edges_from(reversed(list(true.edges)))
    assert list(same.nodes) != list(true.nodes)
    assert edge_scores([true], [same])["exact"] == 1
    assert segmentation_scores([true], [same])["ari_components"] == 1
    assert (
        edge_scores([true], [nx.path_graph(4)])["exact"] == 1
    )  # nodes called 0 … 3 are meant by their place


def ratio(part: float, whole: float, nothing: bool) -> float:
    return part / whole if whole else float(nothing)


def by_hand(score: list[float], truth: list[bool], threshold: float) -> dict[str, float]:
    """Scores of one list of entries, from their definitions."""
    chosen = [s >= threshold for s in score]
    tp = sum(c and t for c, t in zip(chosen, truth, strict=True))
    fp = sum(c and not t for c, t in zip(chosen, truth, strict=True))
    fn = sum(t and not c for c, t in zip(chosen, truth, strict=True))
    tn = len(score) - tp - fp - fn
    nothing = tp + fp + fn == 0
    ap, before = 0.0, 0.0
    for level in sorted(set(score), reverse=True):  # the area under precision over recall, step by step
        taken = [t for s, t in zip(score, truth, strict=True) if s >= level]
        reached = sum(taken) / max(sum(truth), 1)
        ap += (reached - before) * sum(taken) / len(taken)
        before = reached
    return {
        "accuracy": ratio(tp + tn, len(score), True),
        "iou": ratio(tp, tp + fp + fn, nothing),
        "dice": ratio(2 * tp, 2 * tp + fp + fn, nothing),
        "precision": ratio(tp, tp + fp, nothing),
        "recall": ratio(tp, tp + fn, nothing),
        "average_precision": ap if any(truth) else float(nothing),
        "exact": float(fp + fn == 0),
    }


def entries_of(matrix: Tensor, entries: str) -> list:
    n = len(matrix)
    pairs, squares = itertools.combinations(range(n), 2), itertools.product(range(n), repeat=2)
    places = pairs if entries == "pairs" else squares
    return [matrix[i, j].item() for i, j in places]


def expected(
    probabilities: list[Tensor], truths: list[Data], threshold: float, entries: str
) -> dict[str, float]:
    scores = [entries_of(p, entries) for p in probabilities]
    truth = [entries_of(GraphBatch.from_graphs([g]).adj[0], entries) for g in truths]
    each = [by_hand(s, t, threshold) for s, t in zip(scores, truth, strict=True)]
    together = by_hand(list(itertools.chain(*scores)), list(itertools.chain(*truth)), threshold)
    out = {name: sum(e[name] for e in each) / len(each) for name in each[0]}
    return out | {f"pooled_{n}": v for n, v in together.items() if n not in ("average_precision", "exact")}


@st.composite
def predictions(draw: st.DrawFn) -> tuple[list[Tensor], list[Data]]:
    """Graphs, and symmetric probabilities for them with many ties."""
    truths = draw(st.lists(graphs(pos_width=None), min_size=1, max_size=4))
    out = []
    for graph in truths:
        n = graph.num_nodes
        levels = draw(st.lists(st.sampled_from([0.0, 0.2, 0.5, 0.7, 1.0]), min_size=n * n, max_size=n * n))
        square = torch.tensor(levels).view(n, n)
        out.append(square.triu() + square.triu(1).T)
    return out, truths


def padded(probabilities: list[Tensor], truths: list[Data], extra: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """The arguments of ``update``, with nonsense where nothing may look."""
    batch = GraphBatch.from_graphs(truths)
    width = batch.mask.shape[1] + extra
    p = torch.stack([pad(m, (0, width - len(m)) * 2, value=9.0) for m in probabilities])
    return p, pad(batch.adj, (0, extra) * 2, value=True), pad(batch.mask, (0, extra))


def computed(metric: EdgeScores) -> dict[str, float]:
    return {name: float(value) for name, value in metric.compute().items()}


@pytest.mark.parametrize("entries", ["pairs", "all"])
@given(data=predictions(), extra=st.integers(0, 2))
def test_equals_counting_by_hand_under_any_padding(entries, data, extra) -> None:
    probabilities, truths = data
    metric = EdgeScores(threshold=0.5, entries=entries)
    metric.update(*padded(probabilities, truths, extra))
    assert computed(metric) == pytest.approx(expected(probabilities, truths, 0.5, entries), abs=1e-8)


@given(predictions(), st.integers(1, 3))
def test_batches_and_merged_metrics_equal_one_batch_exactly(data, cut) -> None:
    probabilities, truths = data
    whole, first, second = EdgeScores(), EdgeScores(), EdgeScores()
    whole.update(*padded(probabilities, truths))
    for index, (p, t) in enumerate(zip(probabilities, truths, strict=True)):
        (first if index < cut else second).update(*padded([p], [t]))
    if cut < len(truths):
        first.merge_state(second)
    assert computed(first) == computed(whole)


@pytest.mark.parametrize("entries", ["pairs", "all"])
@given(data=predictions())
def test_lists_of_graphs_equal_padded_batches(entries, data) -> None:
    probabilities, truths = data
    probabilities = [p.where(p >= 0.5, 0).fill_diagonal_(0) for p in probabilities]
    metric = EdgeScores(entries=entries)
    metric.update(*padded(probabilities, truths))
    predicted = []
    for p in probabilities:
        columns = (p > 0).nonzero().T.flip(1)  # out of order: edge_prob belongs to the columns as given
        predicted.append(Data(edge_index=columns, num_nodes=len(p), edge_prob=p[tuple(columns)]))
    assert edge_scores(truths, predicted, entries) == pytest.approx(computed(metric), abs=1e-8)


@given(predictions())
def test_lists_without_probabilities_rank_edges_before_all_else(data) -> None:
    probabilities, truths = data
    hard = [(p >= 0.5).fill_diagonal_(False) for p in probabilities]
    metric = EdgeScores()
    metric.update(*padded([h.float() for h in hard], truths))
    assert edge_scores(truths, (h.numpy() for h in hard)) == pytest.approx(computed(metric), abs=1e-8)


@given(predictions())
def test_bool_half_and_double_inputs_agree(data) -> None:
    probabilities, truths = data
    p, adj, mask = padded([(m >= 0.5).float() for m in probabilities], truths)
    answers = []
    for kind in (torch.bool, torch.bfloat16, torch.float32, torch.float64):
        metric = EdgeScores()
        metric.update((p * mask[:, None]).to(kind), adj.to(kind), mask)
        answers.append(computed(metric))
    assert all(answer == answers[0] for answer in answers)


def test_node_order_cannot_matter_even_for_lopsided_probabilities() -> None:
    generator = torch.Generator().manual_seed(0)
    p, order = torch.rand(1, 6, 6, generator=generator), torch.randperm(6, generator=generator)
    adj = (p + p.mT > 1) & ~torch.eye(6, dtype=torch.bool)
    one, other = EdgeScores(), EdgeScores()
    one.update(p, adj, torch.ones(1, 6))
    other.update(p[:, order][:, :, order], adj[:, order][:, :, order], torch.ones(1, 6))
    assert computed(one) == computed(other)


def test_nothing_to_find() -> None:
    empty, edge = make_graph(num_nodes=3), make_graph(num_nodes=3, edges=[(0, 1)])
    assert set(edge_scores([empty], [empty]).values()) == {1.0}
    ratios = ("iou", "dice", "precision", "recall", "average_precision", "exact")
    assert {edge_scores([empty], [edge])[name] for name in ratios} == {0.0}
    assert {edge_scores([edge], [empty])[name] for name in ratios if name != "average_precision"} == {0.0}


def test_large_sparse_graphs_need_no_matrix() -> None:
    ring = torch.arange(200_000)  # its 4·10¹⁰ entries fit no memory
    pairs = torch.stack([ring, ring.roll(-1)], dim=1)
    true, predicted = (make_graph(edges=edges, num_nodes=len(ring)) for edges in (pairs, pairs[1:]))
    scores = edge_scores([true], [predicted])
    assert scores["recall"] == pytest.approx(1 - 1 / len(ring), abs=1e-12)
    assert scores["precision"] == 1


def test_scores_print_with_arrows_and_both_means() -> None:
    shown = str(edge_scores([make_graph(num_nodes=3, edges=[(0, 1)])], [make_graph(num_nodes=3)]))
    assert "IoU ↑" in shown
    assert "pooled" in shown
    assert "1 graphs, over unordered pairs" in shown


TWO = make_graph(num_nodes=2)


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda: EdgeScores(entries="some"), "entries='some'"),
        (lambda: EdgeScores(threshold=2), "threshold=2"),
        (lambda: EdgeScores("x"), "threshold='x'"),
        (
            lambda: EdgeScores().update(torch.ones(2, 3, 3), torch.ones(2, 3, 3), torch.ones(3)),
            "mask \\[3\\]",
        ),
        (lambda: edge_scores([TWO], [make_graph(num_nodes=3)]), "predicted\\[0\\] has 3 nodes"),
        (lambda: edge_scores([TWO, TWO], [TWO]), "2 true and 1 predicted"),
        (lambda: edge_scores([nx.Graph([("a", "b")])], [nx.Graph([("a", "c")])]), "has no node 'b'"),
        (lambda: edge_scores([], []), "true is empty"),
        (lambda: edge_scores([TWO], TWO), "predicted is a single Graph"),
    ],
)
def test_mistakes_are_named(act, words) -> None:
    with pytest.raises(GLNError, match=words):
        act()


@pytest.mark.parametrize("bad", [float("nan"), 1.5, -0.1])
def test_what_is_no_probability_is_refused(bad) -> None:
    p, adj, mask = torch.full((1, 3, 3), bad), torch.zeros(1, 3, 3), torch.ones(1, 3)
    metric = EdgeScores()
    metric.update(p, adj, mask)
    with pytest.raises(GLNError, match="3 probabilities are NaN or outside"):
        metric.compute()
    graph = make_graph(num_nodes=2, edges=[(0, 1)])
    graph.edge_prob = torch.tensor([bad, bad])
    with pytest.raises(GLNError, match="predicted\\[0\\]: edge_prob"):
        edge_scores([graph], [graph])


@pytest.mark.parametrize("entries", ["pairs", "all"])
def test_asymmetric_edge_prob_counts_as_in_a_padded_batch(entries) -> None:
    generator = torch.Generator().manual_seed(4)
    p = 0.5 + torch.rand(7, 7, generator=generator, dtype=torch.float64) / 2
    p = p * ((pairs := torch.rand(7, 7, generator=generator).triu(1) > 0.4) | pairs.mT)
    adj = torch.rand(7, 7, generator=generator).triu(1) > 0.6
    adj = adj | adj.mT
    metric = EdgeScores(entries=entries)
    metric.update(p[None], adj[None], torch.ones(1, 7))
    columns = p.nonzero().T[:, torch.randperm(int((p > 0).sum()), generator=generator)]
    predicted = Data(edge_index=columns, num_nodes=7, edge_prob=p[tuple(columns)])
    assert edge_scores([adj.numpy()], [predicted], entries) == pytest.approx(computed(metric), abs=1e-8)
