"""The benchmark of size: what it measures and how it reads."""

from __future__ import annotations

import os
from itertools import pairwise

import numpy as np
import pytest

from benchmarks import scale
from benchmarks.common import in_fresh_process, notes, peak_memory, table
from gln.errors import GLNError


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes are measured here, not in fresh processes, and on a CPU."""
    monkeypatch.setattr(scale.torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(scale, "in_fresh_process", lambda call, *args: call(*args))


@pytest.mark.usefixtures("in_process")
def test_every_size_is_twice_the_one_before_and_has_its_ratios() -> None:
    row = scale.run(points=20, doublings=2)
    sizes = row["sizes"]
    assert [size["points"] for size in sizes] == [20, 40, 80]
    assert row["time_ratios"] == [b["seconds"] / a["seconds"] for a, b in pairwise(sizes)]
    assert row["memory_ratios"] == pytest.approx([1, 1], abs=0.2)
    assert all(size["f1"] > 0.95 for size in sizes)  # sizes it was trained on
    assert [line[0] for line in table(row)] == ["points", "20", "40", "80"]
    assert f"{row['time_ratios'][1]:.2f}×; memory" in notes(row)[0]


def test_the_peak_is_of_all_that_was_held() -> None:
    before = peak_memory()
    held = np.ones(2**25)  # 1/4 GiB
    assert peak_memory() >= max(before, held.nbytes / 2**30)
    del held
    assert peak_memory() >= before


def test_a_process_that_is_ended_is_told() -> None:
    with pytest.raises(GLNError, match=r"process for _exit\(9,\) was ended"):
        in_fresh_process(os._exit, 9)


def test_a_mistake_is_one_sentence() -> None:
    with pytest.raises(GLNError, match="points=2"):
        scale.run(points=2)
