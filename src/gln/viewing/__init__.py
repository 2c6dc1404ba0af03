"""Viewing graphs: pictures and interactive pages. They are given graphs and scores, and fetch nothing."""

from gln.files import FORMATS
from gln.inference.steps import Seen
from gln.viewing.pages import write_page
from gln.viewing.pictures import draw_errors, draw_graph
from gln.viewing.sheets import save_gallery, save_steps
from gln.workflows.views import View, views_of, watch

__all__ = [
    "FORMATS",
    "Seen",
    "View",
    "draw_errors",
    "draw_graph",
    "save_gallery",
    "save_steps",
    "views_of",
    "watch",
    "write_page",
]
