"""Counting small patterns in many graphs at once: the part of the statistics that needs an algorithm.

:mod:`~.blocks` joins graphs into one, :mod:`~.route` decides how to count, :mod:`~.sparse` and :mod:`~.dense` count.
"""

from gln.evaluation.counting.blocks import Blocks, Counts
from gln.evaluation.counting.route import Route, count, count_triangles, measure

__all__ = ["Blocks", "Counts", "Route", "count", "count_triangles", "measure"]
