"""The colours of every picture and page, chosen for colour-blind readers too."""

from __future__ import annotations

INK = "#1f2933"
EDGE = "#2b5f8a"  # edges of a single graph, and edges that are predicted and true
MISSING, EXTRA = "#D55E00", "#CC79A7"  # true edges not predicted, predicted edges not true
# Okabe and Ito's palette.
GROUPS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#F0E442"]
DEPTH = ["#c3d9e8", "#4f8fbf", "#0b3c5d"]  # far to near, and unlikely to likely

#: The colours of a page by name; on a dark background the same hues are lighter.
LIGHT_PAGE = {
    "ink": INK,
    "right": EDGE,
    "missing": MISSING,
    "extra": EXTRA,
    "unlikely": DEPTH[0],
    "likely": DEPTH[2],
}
DARK_PAGE = {
    "ink": "#e4e9ee",
    "right": "#6db3e8",
    "missing": "#ff8a3d",
    "extra": "#eba3cb",
    "unlikely": "#24435c",
    "likely": "#a9d8fb",
}
