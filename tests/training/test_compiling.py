"""Compiled steps: the same numbers, compiled once for all steps, and gone afterwards."""

from contextlib import nullcontext

import pytest
import torch

from gln.families import parse_family
from gln.graphs import GraphBatch
from gln.models import GLN, PaperGLN
from gln.training import fit
from gln.training.loop import compiled_steps
from tests.training.tiny import TinyLoss, tiny

TRAIN = parse_family("delaunay:points=12").sample(2, 0)
BATCH = GraphBatch.from_graphs(TRAIN)


def small_gln(**settings):
    torch.manual_seed(0)
    return GLN(width=8, pair_width=8, kernels=2, steps=4, **settings).eval()


@pytest.fixture(autouse=True)
def nothing_compiled():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def counting(graphs):
    """A compiler that runs what it is given, and counts it."""

    def compiler(graph, inputs):
        graphs.append(graph)
        return graph.forward

    return compiler


@pytest.mark.parametrize("candidates", [None, 4])
@pytest.mark.parametrize(
    "kinds", [{}, {"edge_types": 3, "edge_weights": True, "node_types": 2, "directed": True}]
)
def test_one_compilation_serves_all_steps_and_changes_no_number(kinds, candidates):
    model, graphs = small_gln(**kinds), []
    plain = model(BATCH, candidates=candidates)
    with compiled_steps(model, backend=counting(graphs)):
        found = model(BATCH, candidates=candidates)
    assert len(graphs) == 3  # one for all steps, and the two layers in front of them
    for one, two in zip(plain.logits, found.logits, strict=True):
        torch.testing.assert_close(one, two)


@pytest.mark.parametrize("initial", [False, True])
def test_gradients_are_the_same_with_and_without_a_first_structure(initial):
    model, first = small_gln(), torch.ones(12, 12) if initial else None
    gradients = []
    for how in (nullcontext(), compiled_steps(model, backend="aot_eager")):
        model.zero_grad()
        with how:
            model(BATCH, initial=first).logits[-1].square().mean().backward()
        gradients.append([None if w.grad is None else w.grad.clone() for w in model.parameters()])
    for one, two in zip(*gradients, strict=True):
        torch.testing.assert_close(one, two)


def test_afterwards_the_model_is_as_before():
    model, graphs = small_gln(), []
    before = [set(vars(part)) for part in model.modules()]
    with compiled_steps(model, backend=counting(graphs)):
        pass
    model(BATCH)
    assert not graphs
    assert [set(vars(part)) for part in model.modules()] == before


def test_a_model_without_blocks_is_compiled_as_a_whole():
    torch.manual_seed(0)
    model, graphs = PaperGLN(nodes=12, in_channels=2), []
    plain = model(BATCH)
    with compiled_steps(model, backend=counting(graphs)):
        torch.testing.assert_close(model(BATCH).logits[-1], plain.logits[-1])
    assert graphs


def test_training_leaves_what_the_caller_compiled():
    model, graphs = tiny(), []
    model.compile(backend=counting(graphs))
    fit(model, TRAIN, TRAIN, epochs=1, loss=TinyLoss(), accelerator="cpu", progress=False)
    graphs.clear()
    torch._dynamo.reset()
    model(BATCH)
    assert graphs
