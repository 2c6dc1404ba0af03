"""Fit drawings and text into the space they have."""

from __future__ import annotations

import re
from textwrap import fill

import numpy as np
from matplotlib.axes import Axes


def height_of(ax: Axes) -> float:
    """The height of what a drawing shows, relative to its width."""
    return float(abs(np.diff(ax.get_ylim())[0] / np.diff(ax.get_xlim())[0]))


def widen(ax: Axes, height: float) -> None:
    """Add space around a drawing until it is ``height`` times as high as wide."""
    now = height_of(ax)
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    across, up = max(now / height, 1) * (right - left) / 2, max(height / now, 1) * (top - bottom) / 2
    x, y = (left + right) / 2, (bottom + top) / 2
    ax.set(xlim=(x - across, x + across), ylim=(y - up, y + up))


def wrapped(caption: str, letters: int) -> str:
    """``caption`` in lines of at most ``letters`` letters, broken after a comma where possible."""
    lines: list[str] = []
    for part in re.split(r"(?<=,) ", caption):
        if lines and len(lines[-1]) + 1 + len(part) <= letters:
            lines[-1] += f" {part}"
        else:
            lines.append(fill(part, letters))
    return "\n".join(lines)
