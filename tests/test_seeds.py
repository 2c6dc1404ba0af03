"""Seeds: streams that do not meet, and none that repeats another's graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import gln
from gln.errors import GLNError
from gln.seeds import FRESH, GENERATE, NOISE, ORDER, STEP, check_seed, seed_of, seeded


def test_a_seed_depends_on_its_purpose_and_on_every_number() -> None:
    places = [(seed, epoch) for seed in range(4) for epoch in range(4)]
    found = {
        seed_of(purpose, *place) for purpose in (ORDER, NOISE, STEP, FRESH, GENERATE) for place in places
    }
    assert len(found) == 5 * len(places)
    assert seed_of(STEP, 1, 2) == seed_of(STEP, 1, 2)


@pytest.mark.parametrize("seed", [-1, 2**32, 2**32 + 5, 2**64, 1.0, True, "1", None])
def test_a_seed_that_numpy_would_cut_into_words_is_refused(seed: Any) -> None:
    # The first graphs of seed 5 + 2³² would be those of seed 5 from its second block on.
    words = r"seed=.*; expected a whole number from 0 to 4294967295\."
    for use in (
        lambda: check_seed("here", seed),
        lambda: gln.family("delaunay").sample(1, seed=seed),
        lambda: gln.split([1, 2, 3], seed=seed),
        lambda: gln.FitConfig(seed=seed),
        lambda: gln.Fresh(gln.family("delaunay"), 1, seed=seed),
    ):
        with pytest.raises(GLNError, match=words):
            use()


def test_the_last_seed_and_those_of_numpy_are_as_good_as_any() -> None:
    assert check_seed("here", np.int64(3)) == 3
    assert check_seed("here", 2**32 - 1) == 2**32 - 1
    (graph,) = gln.family("delaunay", points=4).sample(1, seed=2**32 - 1)
    assert graph.num_nodes == 4


def test_fresh_graphs_are_those_of_a_seed_that_may_be_given() -> None:
    seen = []

    class Source:
        def sample(self, count: int, seed: int = 0) -> list[Any]:
            seen.append(seed)
            return []

    for epoch in range(50):
        gln.Fresh(Source(), 1, seed=7)(epoch)
    assert [check_seed("here", seed) for seed in seen] == seen
    assert len(set(seen)) == 50


def test_numbers_after_a_seeded_stretch_go_on_as_before() -> None:
    torch.manual_seed(1)
    expected = torch.rand(2)
    torch.manual_seed(1)
    with seeded(5):
        inside = torch.rand(2)
    assert torch.equal(torch.rand(2), expected)
    with seeded(5):
        assert torch.equal(torch.rand(2), inside)
