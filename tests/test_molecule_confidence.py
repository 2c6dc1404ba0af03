"""Confidence in molecules is the share of answers that were right."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from gln.decoding.confidence import chance
from gln.decoding.valences import ELEMENTS
from gln.errors import GLNError
from gln.graphs import make_graph
from gln.workflows.molecules import Chemistry
from recipes.molecule_confidence import calibrate, fit_confidence
from tests.workflows.test_molecules import ENDS, ByLength


def test_calibrated_chances_are_those_that_answers_were_right() -> None:
    random = np.random.default_rng(0)
    doubts = random.uniform(0, 1, (20_000, 2)) ** 4
    wrong = random.uniform(size=20_000) < 0.3 * doubts[:, 0]
    weights = calibrate(doubts, ~wrong)
    said = chance(doubts, weights)
    for least, most in itertools.pairwise((0, 0.9, 0.97, 1)):
        some = (said > least) & (said <= most)
        assert said[some].mean() == pytest.approx((~wrong[some]).mean(), abs=0.03)
    with pytest.raises(GLNError, match="all right"):
        calibrate(doubts, np.ones(20_000, dtype=bool))


def test_confidence_is_fitted_and_kept() -> None:
    model, random = ByLength(), np.random.default_rng(0)
    graphs = []
    for number in range(40):
        where = torch.tensor([[0.0, 0, 0], [0, 1.2, 0], [0.94, -0.55, 0], [-0.94, -0.55, 0]])
        x = torch.eye(13)[[ELEMENTS.index(symbol) for symbol in "COHH"]]
        graph = make_graph(where + float(random.normal()), x, ENDS, edge_type=torch.tensor([1, 0, 0]))
        graph.node_type = torch.zeros(4, dtype=torch.int64)
        if number % 4 == 0:  # a quarter of the answers is not what is true
            graph.edge_type = torch.zeros(6, dtype=torch.int64)
        graphs.append(graph)
    fitted = fit_confidence(model, graphs)
    assert model.training_facts["confidence"] == fitted  # type: ignore[attr-defined]
    sure = (
        Chemistry.of(model)
        .molecule(model.answer(graphs[0]), list("COHH"), np.ones(4, dtype=bool))
        .molecule_prob
    )
    assert sure == pytest.approx(0.75, abs=0.02)
