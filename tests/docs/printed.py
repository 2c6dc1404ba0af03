"""What a page says is printed, beside what is."""

from __future__ import annotations

import re


def assert_printed(printed: str, expected: str) -> None:
    """Line by line; a line ``…`` stands for any number of lines, and numbers may differ in the third decimal."""
    lines, wanted = printed.splitlines(), expected.splitlines()
    skip = False
    for want in wanted:
        if want == "…":
            skip = True
            continue
        while skip and lines and not same(lines[0], want):
            lines.pop(0)
        assert lines, f"{want!r} was not printed:\n{printed}"
        assert same(lines.pop(0), want), f"{want!r} was not printed:\n{printed}"
        skip = False
    assert skip or not lines, f"more was printed:\n{printed}"


def same(line: str, want: str) -> bool:
    ours, theirs = re.split(r"[\s,]+", line.strip()), re.split(r"[\s,]+", want.strip())
    return len(ours) == len(theirs) and all(map(_close, ours, theirs))


def _close(ours: str, theirs: str) -> bool:
    try:
        return ours == theirs or ("." in theirs and abs(float(ours) - float(theirs)) < 0.005)
    except ValueError:
        return False
