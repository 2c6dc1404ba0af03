"""The losses equal their formulas, stay finite, and look at nothing but the pairs that count."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log
from typing import Any, get_args

import pytest
import torch
from torch import Tensor, nn

from gln.errors import GLNError
from gln.graphs import GraphBatch, make_graph
from gln.models.contract import StructureOutput
from gln.models.paper import PaperGLN
from gln.training.losses import Edge, Loss, Structure

SIZES = (4, 2, 6)
KINDS = [(edge, structure) for edge in get_args(Edge) for structure in get_args(Structure)]


def case(sizes: tuple[int, ...] = SIZES, steps: int = 2, seed: int = 0) -> tuple[StructureOutput, GraphBatch]:
    """Random scores and random edges."""
    rng = torch.Generator().manual_seed(seed)
    graphs = []
    for n in sizes:
        chosen = torch.rand(n, n, generator=rng).triu(1) > 0.6
        graphs.append(make_graph(pos=torch.rand(n, 2, generator=rng), edges=chosen.nonzero()))
    batch = GraphBatch.from_graphs(graphs)
    shape = batch.adj.shape
    scores = tuple(torch.randn(shape, generator=rng, dtype=torch.float64) * 3 for _ in range(steps))
    states = tuple(torch.zeros(*shape[:2], 1) for _ in range(steps))
    return StructureOutput(scores, states, batch.pair_mask), batch


def by_hand(
    scores: Tensor, truth: Tensor, mask: Tensor, n: int, edge: str, structure: str, beta: float
) -> float:
    """The table of the module for one graph; ``beta`` is the share of edges in the batch."""
    pairs = [
        (float(s), bool(y))
        for s, y, m in zip(scores.flatten(), truth.flatten(), mask.flatten(), strict=True)
        if m
    ]
    p = [1 / (1 + exp(-s)) for s, _ in pairs]
    y = [float(edge) for _, edge in pairs]
    positive = sum(-log(a) for a, b in zip(p, y, strict=True) if b)
    negative = sum(-log(1 - a) for a, b in zip(p, y, strict=True) if not b)
    own = sum(y) / len(y)
    edge_term = {
        "balanced": ((1 - own) * positive + own * negative) / len(y),
        "literal": (own * positive + (1 - own) * negative) / len(y),
        "plain": (positive + negative) / len(y),
        "released": 2 * beta * (1 - beta) * (positive + negative) / n,
    }[edge]
    both = sum(a * b for a, b in zip(p, y, strict=True))
    squares = sum(a * a for a in p) + sum(b * b for b in y)
    structure_term = {
        "dice": 1 - 2 * both / squares,
        "iou": 1 - both / (sum(p) + sum(y) - both),
        "none": 0.0,
    }[structure]
    return 2 * edge_term + 3 * structure_term


@pytest.mark.parametrize(("edge", "structure"), KINDS)
def test_equals_the_table_at_every_step(edge: Any, structure: Any) -> None:
    output, batch = case()
    beta = float(batch.adj.sum() / batch.pair_mask.sum())
    steps = [
        [
            by_hand(scores[g], batch.adj[g], output.mask[g], SIZES[g], edge, structure, beta)
            for g in range(len(SIZES))
        ]
        for scores in output.logits
    ]
    loss = Loss(edge, structure, psi1=2, psi2=3)
    torch.testing.assert_close(loss(output, batch).tolist(), steps[-1])
    mean = torch.tensor(steps, dtype=torch.float64).mean(dim=0)
    torch.testing.assert_close(replace(loss, every_step=True)(output, batch), mean)


@pytest.mark.parametrize(("edge", "structure"), [kind for kind in KINDS if kind[0] != "released"])
def test_a_graph_has_the_same_loss_alone_and_padded(edge: Any, structure: Any) -> None:
    output, batch = case()
    together = Loss(edge, structure)(output, batch)
    for g, graph in enumerate(batch.to_graphs()):
        alone, n = GraphBatch.from_graphs([graph]), SIZES[g]
        scores = tuple(step[g : g + 1, :n, :n] for step in output.logits)
        single = StructureOutput(scores, output.states, alone.pair_mask)
        torch.testing.assert_close(Loss(edge, structure)(single, alone), together[g : g + 1])


def test_the_released_edge_term_depends_on_the_batch() -> None:
    output, batch = case()
    first = GraphBatch.from_graphs(batch.to_graphs()[:1])
    alone = StructureOutput((output.logits[-1][:1, :4, :4],), output.states, first.pair_mask)
    loss = Loss("released", "none")
    assert not torch.allclose(loss(alone, first), loss(output, batch)[:1])


@pytest.mark.parametrize(("edge", "structure"), KINDS)
def test_what_is_masked_changes_neither_loss_nor_gradient(edge: Any, structure: Any) -> None:
    output, batch = case(steps=1)
    scores = output.logits[0].clone().requires_grad_()
    clean = Loss(edge, structure)(replace(output, logits=(scores,)), batch)
    for rubbish in (1e30, float("inf"), float("nan")):
        spoilt = output.logits[0].masked_fill(~output.mask, rubbish).requires_grad_()
        losses = Loss(edge, structure)(replace(output, logits=(spoilt,)), batch)
        assert torch.equal(losses, clean)
        (gradient,) = torch.autograd.grad(losses.sum(), spoilt)
        assert torch.isfinite(gradient).all()
        assert not gradient[~output.mask].any()


@pytest.mark.parametrize(("edge", "structure"), KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_extreme_scores_give_finite_losses_and_gradients(
    edge: Any, structure: Any, dtype: torch.dtype
) -> None:
    output, batch = case(sizes=(1, 5, 5, 5))
    batch = replace(batch, adj=batch.adj & (torch.arange(4) != 3)[:, None, None])  # the last has no edge
    sign = batch.adj.to(dtype) * 2 - 1
    for scores in (1e4 * sign, -1e4 * sign, torch.full_like(sign, -1e4), torch.full_like(sign, 1e4)):
        scores.requires_grad_()
        losses = Loss(edge, structure)(replace(output, logits=(scores,)), batch)
        (gradient,) = torch.autograd.grad(losses.sum(), scores)
        assert losses.dtype == torch.float32
        assert torch.isfinite(losses).all()
        assert torch.isfinite(gradient).all()


def test_confident_mistakes_still_pull() -> None:
    output, batch = case(sizes=(4, 6), steps=1)
    wrong = (-1e4 * (batch.adj.double() * 2 - 1)).requires_grad_()
    (gradient,) = torch.autograd.grad(Loss()(replace(output, logits=(wrong,)), batch).sum(), wrong)
    assert (gradient[batch.adj] < 0).all()
    assert (gradient[output.mask & ~batch.adj] > 0).all()


@pytest.mark.parametrize(("edge", "structure"), KINDS)
def test_a_perfect_prediction_costs_nothing(edge: Any, structure: Any) -> None:
    output, batch = case(sizes=(6, 6), steps=1)
    perfect = replace(output, logits=(50 * (batch.adj.double() * 2 - 1),))
    assert Loss(edge, structure)(perfect, batch).max() < 1e-9


@pytest.mark.parametrize(("edge", "structure"), KINDS)
def test_all_candidates_equal_all_pairs(edge: Any, structure: Any) -> None:
    output, batch = case(sizes=(5, 5))
    others = torch.tensor([[j for j in range(5) if j != i] for i in range(5)]).expand(2, 5, 4)
    listed = StructureOutput(
        tuple(step.gather(2, others) for step in output.logits),
        output.states,
        torch.ones(2, 5, 4, dtype=torch.bool),
        others,
    )
    torch.testing.assert_close(Loss(edge, structure)(listed, batch), Loss(edge, structure)(output, batch))


def test_an_edge_that_is_no_candidate_is_not_in_the_loss() -> None:
    batch = GraphBatch.from_graphs([make_graph(pos=torch.rand(3, 2), edges=torch.tensor([[0, 1], [0, 2]]))])
    candidates = torch.tensor([[[1], [0], [1]]])  # the edge 0–2 is not among them
    output = StructureOutput((torch.tensor([[[9.0], [9.0], [-9.0]]]),), (), candidates >= 0, candidates)
    assert Loss()(output, batch).item() < 1e-3


def test_a_proposal_in_half_precision_is_summed_in_float32_and_its_padding_is_not_seen() -> None:
    output, batch = case(sizes=(40, 30))
    scores = output.logits[0].bfloat16()
    spoilt = scores.masked_fill(~batch.pair_mask, float("nan"))
    losses = [Loss()(replace(output, proposal=proposal), batch) for proposal in (scores.double(), spoilt)]
    torch.testing.assert_close(losses[1], losses[0], rtol=1e-6, atol=0)


def test_the_regulariser_adds_the_squares_of_q_and_m_once_per_graph() -> None:
    output, batch = case()
    model = PaperGLN(nodes=3, in_channels=2, width=2, steps=2)
    squares = sum((weight**2).sum().item() for name in "QM" for weight in getattr(model, name))
    more = Loss(regulariser=0.05)(output, batch, model) - Loss()(output, batch)
    torch.testing.assert_close(more, torch.full_like(more, 0.05 * squares))
    for nothing in (None, nn.Linear(2, 2)):
        with pytest.raises(GLNError, match="weights Q or M"):
            Loss(regulariser=0.05)(output, batch, nothing)


@pytest.mark.parametrize(
    "options", [{"edge": "hed"}, {"structure": "mse"}, {"psi1": -1}, {"psi2": float("nan")}]
)
def test_wrong_settings_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(GLNError, match=f"Loss got {next(iter(options))}"):
        Loss(**options)
