"""Confidence in molecules is the share of answers that were right."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from gln.decoding.molecules import chance
from gln.decoding.valences import ELEMENTS
from gln.errors import GLNError
from gln.graphs import make_graph
from gln.graphs.record import Graph
from gln.workflows.forms import Chemistry
from recipes.molecule_confidence import calibrate, fit_confidence, is_drawing
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


def formaldehyde(atoms: int, shift: float, right: bool) -> Graph:
    """The first atoms of the molecule, or something else that they are said to be."""
    where = torch.tensor([[0.0, 0, 0], [0, 1.2, 0], [0.94, -0.55, 0], [-0.94, -0.55, 0]])[:atoms]
    x = torch.eye(13)[[ELEMENTS.index(symbol) for symbol in "COHH"[:atoms]]]
    types = torch.tensor([1, 0, 0][: atoms - 1]) if right else torch.zeros(atoms - 1, dtype=torch.int64)
    graph = make_graph(where + shift, x, ENDS[: atoms - 1], edge_type=types)
    graph.node_type = torch.zeros(atoms, dtype=torch.int64)
    graph.node_type[0] = 4 - atoms  # hydrogens that are not listed
    return graph


def test_confidence_is_fitted_and_kept_apart_without_hydrogens() -> None:
    model, random = ByLength(), np.random.default_rng(0)
    # A quarter of the answers with all hydrogens is wrong, and half of the others.
    graphs = [
        formaldehyde(atoms, float(random.normal()), number % wrong > 0)
        for number in range(40)
        for atoms, wrong in ((4, 4), (2, 2))
    ]
    fitted = fit_confidence(model, graphs)
    assert model.training_facts["confidence"] == fitted  # type: ignore[attr-defined]
    for graph, share in zip(graphs[:2], (0.75, 0.5), strict=True):
        known = np.ones(graph.num_nodes, dtype=bool)
        found = Chemistry.of(model).molecule(model.answer(graph), "COHH"[: len(known)], known)
        assert found.molecule_prob == pytest.approx(share, abs=0.02)


def test_another_drawing_of_a_molecule_is_the_molecule() -> None:
    pytest.importorskip("rdkit")
    numbers = np.array([6, 8, 7])  # of formamide's anion, with its charge on either end
    bonds = np.array([[0, 1], [0, 2]])

    def drawn(orders: list[int], charges: list[int], hydrogens: list[int]) -> Any:
        told = {"orders": orders, "charges": charges, "hydrogens": hydrogens}
        return SimpleNamespace(bonds=bonds, **{name: np.array(row) for name, row in told.items()})

    first, second = drawn([2, 1], [0, 0, -1], [1, 0, 1]), drawn([1, 2], [0, -1, 0], [1, 0, 1])
    assert is_drawing("O=C[NH-]", numbers, first)
    assert is_drawing("O=C[NH-]", numbers, second)
    assert not is_drawing("O=C[NH-]", numbers, drawn([2, 1], [0, 0, 0], [1, 0, 2]))
    assert not is_drawing("OC=N", numbers, drawn([2, 1], [0, 0, 0], [1, 0, 2]))
    assert not is_drawing("O=CN", numbers, drawn([2, 2], [0, 0, 0], [1, 0, 2]))  # no valence allows it
