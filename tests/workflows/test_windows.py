"""Windows are a function of the input alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

from gln.io import Item, Skipped
from gln.workflows import predict_files
from gln.workflows.predict_files import cut_windows
from tests.workflows.items import item


def test_no_more_than_a_window_is_read_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predict_files, "WINDOW", 3)
    monkeypatch.setattr(predict_files, "WINDOW_NODES", 20)
    read: list[int] = []

    def source() -> Iterator[Item]:
        for number, nodes in enumerate((5, 5, 5, 5, 18, 18, 50, 1)):
            read.append(number)
            yield item(f"{number}", nodes)

    seen = []
    for window in cut_windows(source()):
        seen.append(len(window.items))
        assert len(read) <= sum(seen) + 1  # one more, to know that the window is full
    assert seen == [3, 1, 1, 1, 1, 1]


@given(st.lists(st.booleans(), max_size=40), st.integers(1, 4))
def test_everything_is_in_one_window_in_order(good: list[bool], size: int) -> None:
    events = [item(f"{n}", 2) if fits else Skipped(Path(f"{n}"), "") for n, fits in enumerate(good)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(predict_files, "WINDOW", size)
        cut = list(cut_windows(events))
    assert [one for window in cut for one in window.items] == [e for e in events if isinstance(e, Item)]
    assert [one for window in cut for one in window.bad] == [e for e in events if isinstance(e, Skipped)]
    assert all(len(window.items) <= size for window in cut)
    assert [window.number for window in cut] == list(range(len(cut)))
