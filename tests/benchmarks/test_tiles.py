"""The benchmarks of tiles and of sets on Ray compare like with like; the simulated schedule keeps its laws."""

from __future__ import annotations

import pytest

from benchmarks import schedule, tiles


@pytest.mark.parametrize("kind", ["uniform", "clustered"])
def test_tiles_and_the_whole_have_the_same_edges(kind: str) -> None:
    row = tiles.measure(3, kind, 6000, 2000, False, 0)
    assert row["edges"] > 0
    assert row["edges_that_differ"] == 0
    assert row["largest_difference"] < 1e-6
    assert row["scored_per_point"] > 1


def test_more_gpus_take_no_longer_and_none_is_more_than_busy() -> None:
    given = (10**5, 1e5, 60.0, 5e9, 500.0, 0)
    found = [schedule.simulate(10**8, gpus, *given) for gpus in (1, 4, 16)]
    hours = [row["scoring_hours"] for row in found]
    assert hours == sorted(hours, reverse=True)
    assert all(row["gpus_busy"] + row["waiting_for_the_disk"] <= 1 for row in found)
    slow = schedule.simulate(10**8, 16, *given[:3], 5e7, *given[4:])
    assert slow["waiting_for_the_disk"] > 0.5
    share = schedule.halo(10**6)
    assert schedule.halo(10**4)["read"] > share["read"] > share["scored"] > 1
