"""What happens exactly at a threshold: a pair that reaches it is an edge, a known edge of one half is known."""

from __future__ import annotations

import pytest
import torch

from gln.graphs import GraphBatch, make_graph
from gln.models import GLN, StructureOutput

HALF = torch.nextafter(torch.tensor(0.5), torch.tensor(0.0))  # the largest number below one half


def output_of(prob: torch.Tensor) -> StructureOutput:
    """One graph of two nodes whose pair has this probability."""
    logits = prob.double().logit() * torch.ones(1, 2, 2, dtype=torch.float64)
    return StructureOutput((logits,), (torch.zeros(1, 2, 1),), ~torch.eye(2, dtype=torch.bool)[None])


@pytest.mark.parametrize("threshold", [0.25, 0.5, 0.75])
def test_a_pair_exactly_at_the_threshold_is_an_edge(threshold: float) -> None:
    exact = output_of(torch.tensor(threshold))
    assert exact.probabilities()[0, 0, 1].item() == threshold
    assert exact.adjacency(hard=True, threshold=threshold).sum() == 2
    below = output_of(torch.tensor(threshold, dtype=torch.float64) - 1e-9)
    assert below.adjacency(hard=True, threshold=threshold).sum() == 0


@pytest.mark.parametrize(("value", "found"), [(0.5, True), (HALF.item(), False), (1.0, True)])
def test_a_known_edge_of_exactly_one_half_becomes_a_candidate(value: float, found: bool) -> None:
    torch.manual_seed(0)
    model = GLN(pos_channels=2, width=8, pair_width=8, steps=1).eval()
    line = make_graph(pos=[[float(n), 0.1 * n * n] for n in range(12)])
    initial = torch.zeros(1, 12, 12)
    initial[0, 0, 11] = initial[0, 11, 0] = value  # the two ends, which are no neighbours
    with torch.no_grad():
        output = model(GraphBatch.from_graphs([line]), initial=initial, candidates=2)
    assert bool(output.probabilities()[0, 0, 11] > 0) == found  # 0 is the probability of what was not scored
