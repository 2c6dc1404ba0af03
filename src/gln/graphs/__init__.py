"""Graphs: checking, conversion, batching, splitting and storage.

One graph is a :class:`~gln.graphs.record.Graph`, in Python a PyG ``Data`` with the same attributes:

===============  ==========  =====================================================================
``pos``          ``[n, p]``  float32: where the node is (optional)
``x``            ``[n, f]``  float32: what the node is (optional)
``edge_index``   ``[2, m]``  int64: sorted, no self-loops; an undirected graph has both directions
``edge_type``    ``[m]``     int64 from 0: the kind of the edge (optional)
``edge_weight``  ``[m]``     float32 above 0 (optional)
``node_type``    ``[n]``     int64 from 0: the kind of the node (optional)
``directed``                 True where ``edge_index`` has the directions that exist (optional)
``num_nodes``    ``n``       int: isolated nodes included
===============  ==========  =====================================================================

Both directions of an undirected edge have the same type and weight. ``edge_type_names`` and ``node_type_names`` are
words for the types, where these were given in words. Any other tensor belongs to the graph if it is a scalar, to the
columns of ``edge_index`` if its name starts with ``edge_`` (``edge_prob [m]``), and otherwise to the nodes
(``[n, ...]``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gln.graphs.check import check_graph, make_graph
from gln.graphs.convert import as_graph, as_graphs, to_networkx, to_numpy, to_scipy
from gln.graphs.pack import load_graphs, pack, save_graphs, unpack
from gln.graphs.split import split
from gln.later import names_of

if TYPE_CHECKING:
    from gln.graphs.batch import GraphBatch

__all__ = [
    "GraphBatch",
    "as_graph",
    "as_graphs",
    "check_graph",
    "load_graphs",
    "make_graph",
    "pack",
    "save_graphs",
    "split",
    "to_networkx",
    "to_numpy",
    "to_scipy",
    "unpack",
]

# The others need no torch to be imported.
__getattr__ = names_of(__name__, {"gln.graphs.batch": ["GraphBatch"]})
