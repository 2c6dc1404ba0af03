"""Viewing graphs: pictures and interactive pages. They are given graphs and scores, and fetch nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gln.later import names_of

if TYPE_CHECKING:
    from gln.inference.steps import Seen
    from gln.viewing.pages import write_page
    from gln.viewing.paths import FORMATS
    from gln.viewing.pictures import draw_errors, draw_graph
    from gln.viewing.sheets import draw_curves, save_curves, save_gallery, save_steps
    from gln.workflows.views import View, views_of, watch

_HOME = {
    "gln.inference.steps": ["Seen"],
    "gln.viewing.pages": ["write_page"],
    "gln.viewing.paths": ["FORMATS"],
    "gln.viewing.pictures": ["draw_errors", "draw_graph"],
    "gln.viewing.sheets": ["draw_curves", "save_curves", "save_gallery", "save_steps"],
    "gln.workflows.views": ["View", "views_of", "watch"],
}

__all__ = [
    "FORMATS",
    "Seen",
    "View",
    "draw_curves",
    "draw_errors",
    "draw_graph",
    "save_curves",
    "save_gallery",
    "save_steps",
    "views_of",
    "watch",
    "write_page",
]

__getattr__ = names_of(__name__, _HOME)
