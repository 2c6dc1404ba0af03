"""Windows are a function of the files alone, however many of them are read at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

from gln.io import Item, ReadOptions, Skipped
from gln.workflows import predict_files
from gln.workflows.predict_files import Window, count_blocks, cut_windows, read_windows
from tests.workflows.items import item


def test_no_more_than_a_window_is_read_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predict_files, "WINDOW", 3)
    monkeypatch.setattr(predict_files, "WINDOW_NODES", 20)
    read: list[int] = []

    def source() -> Iterator[tuple[int, Item]]:
        for number, nodes in enumerate((5, 5, 5, 5, 18, 18, 50, 1)):
            read.append(number)
            yield 0, item(f"{number}", nodes)

    seen = []
    for window in cut_windows(source()):
        seen.append(len(window.items))
        assert len(read) <= sum(seen) + 1  # one more, to know that the window is full
    assert seen == [3, 1, 1, 1, 1, 1]


@given(st.lists(st.sampled_from(["good", "bad", "next block"]), min_size=1, max_size=40), st.integers(1, 4))
def test_everything_is_in_one_window_in_order_and_the_last_of_a_block_says_so(
    words: list[str], size: int
) -> None:
    events: list[tuple[int, Item | Skipped]] = []
    block = 0
    for number, word in enumerate(words):
        if word == "next block":
            block += bool(events) and events[-1][0] == block  # every block has something in it
        else:
            good = word == "good"
            events.append((block, item(f"{number}", 2) if good else Skipped(Path(f"{number}"), "")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(predict_files, "WINDOW", size)
        cut = list(cut_windows(events))
    assert [one for window in cut for one in window.items] == [e for _, e in events if isinstance(e, Item)]
    assert [one for window in cut for one in window.bad] == [e for _, e in events if isinstance(e, Skipped)]
    assert all(len(window.items) <= size for window in cut)
    for block in {block for block, _ in events}:
        mine = [window for window in cut if window.block == block]
        assert [window.number for window in mine] == list(range(len(mine)))
        assert [window.last for window in mine] == [False] * (len(mine) - 1) + [True]


def test_blocks_that_are_read_alone_hold_the_windows_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predict_files, "BLOCK", 3)
    monkeypatch.setattr(predict_files, "WINDOW", 2)
    paths = [tmp_path / "deep" / folder / f"{n}.csv" for folder in "ab" for n in range(4)]
    for number, path in enumerate(paths):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x,y\n" + "1,2\n" * number)  # the first has no rows

    def facts(window: Window) -> tuple:
        names = [one.name for one in window.items]
        return window.block, window.number, window.last, names, [str(what) for what in window.bad]

    whole = [facts(window) for window in read_windows(paths, ReadOptions())]
    assert whole[0][-1] == [f"{paths[0]}: there are no rows below the header."]
    assert count_blocks(paths) == 3
    alone = [
        facts(window)
        for block in range(3)
        for window in read_windows(paths, ReadOptions(), blocks=lambda number, block=block: number == block)
    ]
    assert alone == whole
    assert "b/3.csv" in whole[-1][3]
