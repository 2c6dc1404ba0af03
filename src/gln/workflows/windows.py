"""The files of a prediction as windows: sets of nodes that are predicted together.

Windows depend on the files alone, so the answers are the same in any process and in any run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gln.io import Item, ReadOptions, Skipped, read_items

BLOCK = 256  # files; no window crosses the end of a block, so that blocks can be read separately
WINDOW = 256  # items considered together, so that those of similar size share a batch
WINDOW_NODES = 2**17  # fewer items where they are large

Say = Callable[[str], None]


@dataclass
class Window:
    """Window ``number`` of the files of ``block``, and whether it is the ``last`` one.

    ``bad`` is what could not be read on the way; a block with nothing readable has one window without ``items``.
    """

    block: int
    number: int
    last: bool = False
    items: list[Item] = field(default_factory=list)
    bad: list[Skipped] = field(default_factory=list)


def read_windows(
    paths: Sequence[Path],
    options: ReadOptions,
    say: Say | None = None,
    blocks: Callable[[int], bool] | None = None,
) -> Iterator[Window]:
    """The windows of ``paths``, in order; with ``blocks``, only of those blocks: the rest is not read."""
    block_of = {path: number // BLOCK for number, path in enumerate(paths)}
    if blocks is None:
        events = _events(paths, options, say)
    else:
        wanted = [number for number in range(count_blocks(paths)) if blocks(number)]
        events = (event for number in wanted for event in _block_events(paths, number, options, say))
    return cut_windows((block_of[event.path], event) for event in events)


def count_blocks(paths: Sequence[Path]) -> int:
    return -(-len(paths) // BLOCK)


def cut_windows(events: Iterable[tuple[int, Item | Skipped]]) -> Iterator[Window]:
    """Cut items and unreadable files, each with its block, into windows small enough for memory."""
    window, nodes = None, 0
    for block, event in events:
        if window is not None and window.block != block:
            window.last = True
            yield window
            window = None
        if window is None:
            window, nodes = Window(block, 0), 0
        if isinstance(event, Skipped):
            window.bad.append(event)
            continue
        if window.items and (len(window.items) == WINDOW or nodes + event.graph.num_nodes > WINDOW_NODES):
            yield window
            window, nodes = Window(block, window.number + 1), 0
        window.items.append(event)
        nodes += event.graph.num_nodes
    if window is not None:
        window.last = True
        yield window


def _events(paths: Sequence[Path], options: ReadOptions, say: Say | None) -> Iterator[Item | Skipped]:
    """The contents of the files, readable or not, in order; every file yields something."""
    bad: list[Skipped] = []
    for item in read_items(paths, options, on_bad=bad.append, say=say):
        yield from bad
        bad.clear()
        yield item
    yield from bad


def _block_events(
    paths: Sequence[Path], number: int, options: ReadOptions, say: Say | None
) -> Iterator[Item | Skipped]:
    """The same for one block."""
    # An item is named by its path below the folder that all files share. Adding an unreadable file in that folder
    # keeps the names that the items have among all files.
    end = Path(os.path.commonpath([os.path.dirname(os.path.abspath(path)) for path in paths])) / ".end"
    block = [*paths[number * BLOCK : (number + 1) * BLOCK], end]
    return (event for event in _events(block, options, say) if event.path != end)
