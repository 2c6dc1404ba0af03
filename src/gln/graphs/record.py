"""A graph as a light record of tensors: what PyG's ``Data`` is at the Python door, without importing PyG.

``Data`` is taken by :func:`gln.graphs.as_graph` and given back by :meth:`Graph.to_data`; everything between the two
works on :class:`Graph`.
"""

from __future__ import annotations

import copy
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from gln.errors import GLNError
from gln.later import torch

if TYPE_CHECKING:
    from torch import Tensor
    from torch_geometric.data import Data

ROWS = ("pos", "x")  # what a model reads of a node: where it is, and what it is
KINDS = ("edge_type", "edge_weight", "node_type")  # what a graph may say about its edges and nodes
TYPES = ("edge_type", "node_type")  # of these, what may be given in words
NAMES = ("edge_type_names", "node_type_names")  # words for the types 0, 1, …, where a file gave words


class Graph:
    """Attributes by name, as in PyG: ``pos [n, p]``, ``x [n, f]``, ``edge_index [2, m]``, and any others.

    ``pos``, ``x``, ``edge_index`` and the kinds (``edge_type [m]``, ``edge_weight [m]``, ``node_type [n]``) are
    ``None`` where the graph has none. An undirected graph lists both directions of an edge, a directed one only those
    that exist.
    """

    pos: Any = None
    x: Any = None
    edge_index: Any = None
    edge_type: Any = None
    edge_weight: Any = None
    node_type: Any = None
    edge_prob: Any = None
    num_nodes: Any = None
    directed: bool = False  # set where it is True

    def __init__(self, num_nodes: int | None = None, **values: Any) -> None:
        self.__dict__.update(
            {name: value for name, value in values.items() if value is not None and value is not False}
        )
        rows = self.rows()
        if num_nodes is None and rows:
            num_nodes = max(map(len, rows.values()))
        if num_nodes is not None:
            self.num_nodes = num_nodes

    @classmethod
    def from_data(cls, data: Data) -> Graph:
        """The attributes of a PyG ``Data``, whose number of nodes is not guessed from its edges."""
        graph = cls()
        graph.__dict__.update({name: data[name] for name in data.keys()})  # noqa: SIM118
        return graph

    def to_data(self) -> Data:
        """The same as a PyG ``Data``; the tensors are shared."""
        from torch_geometric.data import Data

        names = {name: list(self.__dict__[name]) for name in NAMES if name in self.__dict__}
        return Data(**{**self.__dict__, **names})

    def rows(self) -> dict[str, Any]:
        """Those of ``pos`` and ``x`` that the graph has."""
        return {name: self.__dict__[name] for name in ROWS if name in self.__dict__}

    @property
    def widths(self) -> tuple[int, int]:
        """How many positions and features a node has."""
        pos, x = (0 if self[name] is None else int(self[name].shape[1]) for name in ROWS)
        return pos, x

    @property
    def num_edges(self) -> int:
        """The columns of ``edge_index``: twice the undirected edges, or the directed ones."""
        return 0 if self.edge_index is None else int(self.edge_index.shape[1])

    def listed_once(self) -> Tensor:
        """The columns of ``edge_index`` that :meth:`edges_once` lists, of which an ``edge_type`` can be taken: bool."""
        source, target = self.edge_index
        return source != target if self.directed else source < target

    def edges_once(self) -> np.ndarray:
        """Every undirected edge once, the smaller node first, or every directed edge: ``[m, 2]``, sorted."""
        edges = self.edge_index[:, self.listed_once()]
        return np.ascontiguousarray(edges.T.numpy(force=True))

    def scored_once(self) -> tuple[np.ndarray, np.ndarray]:
        """:meth:`edges_once` of a prediction, and the probability ``[m]`` of each."""
        return self.edges_once(), self.edge_prob[self.listed_once()].numpy(force=True)

    def where(self) -> np.ndarray:
        """Positions ``[n, p]`` in float64, which represents float32 exactly, or features if there are none."""
        rows = next(iter(self.rows().values()), None)
        if rows is None:
            raise GLNError("The nodes have neither pos nor x; give one of them, to measure distances by.")
        return rows.numpy(force=True).astype(np.float64)

    def with_edges(self, edge_index: Tensor, **of_edges: Any) -> Graph:
        """The same nodes, with ``pos`` and ``x`` alone, and these edges."""
        return Graph(self.num_nodes, **self.rows(), edge_index=edge_index, **of_edges)

    def some_edges(self, chosen: Tensor) -> Graph:
        """The same graph with the ``chosen`` columns of ``edge_index``, a mask or numbers, and all that is theirs."""
        part = copy.copy(self)
        part.edge_index = self.edge_index[:, chosen]
        part.__dict__.update({name: self[name][chosen] for name in filter(is_per_edge, self.keys())})
        return part

    def undirected(self) -> Graph:
        """The graph itself; a directed one with an edge where there is one either way, and no kinds of edges."""
        if not self.directed:
            return self
        others = [name for name in self.__dict__ if not is_per_edge(name) and name != "directed"]
        rest = {name: self.__dict__[name] for name in others}
        both = torch.cat([self.edge_index, self.edge_index.flip(0)], dim=1)
        return Graph(**rest | {"edge_index": both.unique(dim=1)})

    if TYPE_CHECKING:  # any other attribute

        def __getattr__(self, name: str) -> Any: ...

        def __setattr__(self, name: str, value: Any) -> None: ...

    def clone(self) -> Graph:
        """A copy with memory of its own."""
        return copy.deepcopy(self)

    def get(self, name: str) -> Any:
        """The attribute ``name``, or ``None``."""
        return self.__dict__.get(name)

    def keys(self) -> list[str]:
        """The names of all attributes."""
        return list(self.__dict__)

    def __contains__(self, name: str) -> bool:
        return name in self.__dict__

    def __getitem__(self, name: str) -> Any:
        return self.__dict__[name] if name in self.__dict__ else getattr(type(self), name)

    def __setitem__(self, name: str, value: Any) -> None:
        self.__dict__[name] = value

    def __repr__(self) -> str:
        shapes = {k: list(v.shape) if is_a(v, "torch.Tensor") else v for k, v in self.__dict__.items()}
        return f"Graph({', '.join(f'{name}={shown}' for name, shown in shapes.items())})"


def is_per_edge(name: str) -> bool:
    """Whether the attribute ``name`` has a row for every column of ``edge_index``."""
    return name.startswith("edge_") and not name.endswith("_index") and name not in NAMES


def is_a(value: Any, kind: str) -> bool:
    """Whether ``value`` is of the class ``kind``, as in ``"torch_geometric.data.Data"``, without importing its module.

    If nobody has imported the module yet, nothing can be of that class.
    """
    module, _, name = kind.rpartition(".")
    return module in sys.modules and isinstance(value, getattr(sys.modules[module], name))


def is_data(value: Any) -> bool:
    """Whether this is a PyG ``Data`` (a ``Batch`` is one too)."""
    return is_a(value, "torch_geometric.data.Data")
