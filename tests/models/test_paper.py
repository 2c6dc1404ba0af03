"""The paper's network equals its formulas, and obeys the laws that each variant can obey."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import torch

from gln.errors import GLNError
from gln.graphs import GraphBatch
from gln.models.paper import PaperGLN, initial_structure
from tests.models.paper_loops import by_the_equations, by_the_released_code

NODES = 4


def batch_of(count: int = 3, nodes: int = NODES, seed: int = 0) -> GraphBatch:
    rng = torch.Generator().manual_seed(seed)
    pos, x = (torch.randn(count, nodes, width, generator=rng, dtype=torch.float64) for width in (2, 1))
    adj = torch.rand(count, nodes, nodes, generator=rng).triu(1) > 0.5
    return GraphBatch(pos, x, adj | adj.mT, torch.ones(count, nodes, dtype=torch.bool))


def model_of(variant: str = "equations", seed: int = 0, **changes: Any) -> PaperGLN:
    torch.manual_seed(seed)
    options: dict[str, Any] = {"nodes": NODES, "in_channels": 3, "kernels": 2, "width": [3, 2], "init": 0.5}
    model = PaperGLN(variant=variant, **options | changes).double()
    for name, weight in model.named_parameters():
        if name.startswith("norm"):  # so that scale and shift are seen to be used
            torch.nn.init.uniform_(weight, 0.5, 1.5)
    return model


VARIANTS: dict[str, dict[str, Any]] = {
    "equations": {},
    "literal": {"symmetric": False},
    "shared": {"shared": True, "width": 3, "steps": 3},
    "a share of pairs": {"initial": 0.5},
    "stabilised": {"variant": "stabilised"},
    "m_bias": {"m_bias": True},
    "normalise": {"normalise": True},
    "identity_m": {"identity_m": True},
    "released": {"variant": "released"},
}


@pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS)
def test_equals_the_loops_forward_and_backward(options: dict[str, Any]) -> None:
    model, batch = model_of(**options), batch_of()
    reference = by_the_released_code if model.released else by_the_equations
    ours, theirs = model(batch).logits, reference(model, batch.features)
    assert len(ours) == len(theirs) == model.config["steps"]
    weights = [torch.randn_like(step) for step in ours]  # any scalar of all scores
    gradients = [
        torch.autograd.grad(
            sum((step * weight).sum() for step, weight in zip(steps, weights, strict=True)),
            list(model.parameters()),
            allow_unused=True,
        )
        for steps in (ours, theirs)
    ]
    for one, other in zip((*ours, *gradients[0]), (*theirs, *gradients[1]), strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-9)


# Laws ---------------------------------------------------------------------------------------------------------


def test_shared_weights_equal_tied_ones() -> None:
    shared = model_of(shared=True, width=3, steps=3, m_bias=True)
    tied = model_of(width=3, steps=3, m_bias=True, seed=1)
    for name in "WUZQMB":
        for l, weight in enumerate(getattr(tied, name)):
            ours = getattr(shared, name)
            weight.data = ours[min(l, len(ours) - 1)].data
    batch = batch_of()
    for one, other in zip(shared(batch).logits, tied(batch).logits, strict=True):
        torch.testing.assert_close(one, other)


def test_shared_weights_run_any_number_of_steps_and_others_any_smaller_one() -> None:
    batch = batch_of()
    for options in ({"shared": True, "width": 3, "steps": 2}, {"width": 3, "steps": 4}):
        model = model_of(**options)
        few, many = model(batch, steps=2), model(batch, steps=4)
        assert len(few.logits) == len(few.states) == 2
        assert len(many.logits) == 4
        torch.testing.assert_close(few.logits[-1], many.logits[1])


@pytest.mark.parametrize("variant", ["equations", "stabilised"])
def test_a_graph_alone_equals_itself_in_a_batch(variant: str) -> None:
    model, batch = model_of(variant), batch_of()
    whole = model(batch).logits[-1]
    for index in range(len(batch)):
        part = slice(index, index + 1)
        alone = GraphBatch(batch.pos[part], batch.x[part], batch.adj[part], batch.mask[part])
        torch.testing.assert_close(model(alone).logits[-1], whole[part])


def test_released_depends_on_the_other_graphs_of_the_batch() -> None:
    model, batch = model_of("released"), batch_of()
    two = GraphBatch(batch.pos[:2], batch.x[:2], batch.adj[:2], batch.mask[:2])
    assert not torch.allclose(model(two).logits[-1], model(batch).logits[-1][:2])


def test_released_forgets_the_features_of_a_graph_alone() -> None:
    model = model_of("released")
    one, other = batch_of(1, seed=1), batch_of(1, seed=2)
    torch.testing.assert_close(model(one).logits[-1], model(other).logits[-1])


@pytest.mark.parametrize("variant", ["equations", "stabilised", "released"])
def test_the_true_edges_are_never_read(variant: str) -> None:
    model, batch = model_of(variant), batch_of()
    blind = replace(batch, adj=~batch.adj)
    for one, other in zip(model(batch).logits, model(blind).logits, strict=True):
        assert torch.equal(one, other)


def test_symmetric_scores_are_symmetric_and_literal_ones_are_not() -> None:
    batch = batch_of()
    for variant in ("equations", "stabilised"):
        for step in model_of(variant)(batch).logits:
            assert torch.equal(step, step.mT)
    for model, symmetric in (
        (model_of(symmetric=False), False),
        (model_of("released"), False),
        (model_of("released", symmetric=True), True),
    ):
        last = model(batch).logits[-1]
        assert torch.equal(last, last.mT) == symmetric


def test_scores_have_the_rank_of_their_factors() -> None:
    model = model_of(nodes=12, width=2, steps=1, symmetric=False)
    assert torch.linalg.matrix_rank(model(batch_of(nodes=12)).logits[0]).tolist() == [2, 2, 2]


def test_only_pairs_of_different_nodes_count() -> None:
    output = model_of()(batch_of())
    assert torch.equal(output.mask[0], ~torch.eye(NODES, dtype=torch.bool))
    assert [state.shape for state in output.states] == [(3, NODES, 3), (3, NODES, 2)]


# The initial structure ---------------------------------------------------------------------------------------


def test_a_share_of_all_pairs_is_joined_to_the_identity() -> None:
    assert torch.equal(initial_structure(5, "identity"), torch.eye(5))
    assert torch.equal(initial_structure(5, "full"), torch.ones(5, 5))
    some = initial_structure(20, 0.3, seed=1)
    assert torch.equal(some, some.T)
    assert (some.sum() - 20) / 2 == round(0.3 * 190)
    assert torch.equal(some, initial_structure(20, 0.3, seed=1))
    assert not torch.equal(some, initial_structure(20, 0.3, seed=2))


def test_a_given_structure_replaces_the_configured_one() -> None:
    batch, given = batch_of(), initial_structure(NODES, 0.5, seed=3)
    configured = model_of(initial=0.5, initial_seed=3)(batch).logits[-1]
    for initial in (given, given.bool(), given.expand(3, -1, -1)):
        torch.testing.assert_close(model_of()(batch, initial=initial).logits[-1], configured)
    assert not torch.allclose(model_of()(batch).logits[-1], configured)


# Options and errors --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS)
def test_its_config_rebuilds_it(options: dict[str, Any]) -> None:
    model, batch = model_of(**options), batch_of()
    again = PaperGLN(**json.loads(json.dumps(model.config))).double()
    assert again.config == model.config
    again.load_state_dict(model.state_dict())
    assert torch.equal(again(batch).logits[-1], model(batch).logits[-1])


def test_defaults_are_the_papers() -> None:
    model = PaperGLN(nodes=6, in_channels=2)
    assert (model.config["width"], model.config["kernels"], model.config["symmetric"]) == ([32] * 5, 3, True)
    assert {name.split(".")[0] for name, _ in model.named_parameters()} == set("WUZQM")
    assert PaperGLN(nodes=6, in_channels=2, variant="released").config["width"] == [32, 16, 8]


def test_stabilised_is_the_equations_and_three_changes() -> None:
    changes, batch = ("m_bias", "normalise", "identity_m"), batch_of()
    for variant, other in (("stabilised", "equations"), ("equations", "stabilised")):
        switched = model_of(other, **dict.fromkeys(changes, variant == "stabilised"))
        assert torch.equal(model_of(variant)(batch).logits[-1], switched(batch).logits[-1])
    assert all(torch.equal(M, torch.eye(NODES).double()) for M in model_of("stabilised").M)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"variant": "released", "nodes": 400}, "25,600,000,000 weights"),
        ({"variant": "released", "normalise": True}, "own biases and normalisation"),
        ({"variant": "better"}, "variant='better'; choose from equations"),
        ({"steps": 3}, "as many widths as steps"),
        ({"nodes": 0}, "nodes=0"),
        ({"shared": True}, "needs one width"),
        ({"initial": "knn"}, "initial='knn'"),
        ({"init": "zero"}, "init='zero'"),
        ({"initial": 1.5}, "initial=1.5"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(GLNError, match=words):
        model_of(**options)


def test_glorot_has_the_variance_of_each_matrix() -> None:
    model = PaperGLN(50, 100, init="glorot", kernels=8)
    for weight, sides in ((model.W[0], 100 + 32), (model.U[0], 32 + 32), (model.M[0], 50 + 50)):
        assert float(weight.detach().var()) == pytest.approx(2 / sides, rel=0.15)
        assert float(weight.detach().abs().max()) <= (6 / sides) ** 0.5


def test_wrong_inputs_are_refused() -> None:
    model, batch = model_of(), batch_of()
    padded = replace(batch, mask=batch.mask & (torch.arange(NODES) < 3))
    for wrong, words in (
        (batch_of(nodes=5), "graphs of 5 nodes.*exactly 4"),
        (padded, "graphs of 3 nodes"),
        (replace(batch, x=None), "2 features per node.*expects 3"),
    ):
        with pytest.raises(GLNError, match=words):
            model(wrong)
    with pytest.raises(GLNError, match=r"initial structure of shape \[3, 3\]"):
        model(batch, initial=torch.eye(3))
    for steps in (0, 3, 1.0):
        with pytest.raises(GLNError, match=f"steps={steps}"):
            model(batch, steps=steps)
