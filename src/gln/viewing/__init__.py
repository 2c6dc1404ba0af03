"""Looking at graphs."""

from gln.viewing.pictures import FORMATS, draw_graph, save_gallery

__all__ = ["FORMATS", "draw_graph", "save_gallery"]
