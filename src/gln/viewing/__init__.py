"""Looking at graphs."""

from gln.viewing.pictures import draw_graph, save_gallery

__all__ = ["draw_graph", "save_gallery"]
