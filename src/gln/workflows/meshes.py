"""Meshes from points: what a model says of the pairs, and the surface that follows from it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gln.errors import GLNError
from gln.graphs.record import Graph
from gln.inference.choice import Choice
from gln.inference.predict import Method, as_method, as_points, predict_graphs
from gln.models.settings import input_widths

FEWEST = 4  # points of a solid


class Mesh(NamedTuple):
    """A mesh, where trimesh is not installed."""

    vertices: np.ndarray
    faces: np.ndarray


def mesh(
    points: Any,
    model: Method | str = "shapes",
    *,
    open: bool = False,
    steps: int | None = None,
    candidates: int | None = None,
) -> Any:
    """The triangle mesh of the surface that ``points`` lie on.

    Every edge has at most two faces, and the faces of a point are one fan. Holes are closed unless ``open``.

    Args:
        points: one row per point ``[n, 3]``: an array or tensor, a list of rows, or a ``Data`` with ``pos``.
        model: a model of points in space, the name of a shipped one, or the folder of a saved one.
        open: keep the boundaries of an open surface, such as a scan of a landscape; only small holes are closed.
        steps: how many steps of the recurrence; default: as trained.
        candidates: as in :func:`gln.predict`.

    Returns:
        A ``trimesh.Trimesh`` or, if trimesh is not installed, a tuple of ``vertices [n, 3]`` and ``faces [f, 3]``. The
        vertices are the points, all of them, in their order; faces are counterclockwise, seen from outside.
    """
    from gln.decoding.faces import LEAST  # here, as it compiles loops

    model = as_method(model)
    graph = as_points(points, None, input_widths(model))
    choice = Choice(LEAST, steps=steps, candidates=candidates)
    faces = faces_of(graph, predict_graphs(model, [check_points(graph)], choice)[0], open)
    vertices = graph.pos.numpy(force=True).astype(np.float64)
    vertices = vertices + graph.origin.numpy() if "origin" in graph else vertices
    try:
        import trimesh
    except ImportError:
        return Mesh(vertices, faces)
    return trimesh.Trimesh(vertices, faces, process=False)


def faces_of(graph: Graph, answer: Graph, open: bool) -> np.ndarray:
    """The faces ``[f, 3]`` over the points of ``graph``, by an ``answer`` with every pair that is worth a look."""
    from gln.decoding.faces import find_faces

    pairs, chances = answer.scored_once()
    return find_faces(graph.pos.numpy(force=True).astype(np.float64), pairs, chances, open)


def check_points(graph: Graph) -> Graph:
    """Refuse points that no surface runs through."""
    width = graph.widths[0]
    if width != 3:
        raise GLNError(f"Got points with {width} coordinates; a mesh needs x, y and z.")
    count = graph.num_nodes
    if count < FEWEST:
        raise GLNError(f"Got {count} points; a mesh needs at least {FEWEST}.")
    where = graph.pos.numpy(force=True).astype(np.float64)
    spread = (
        np.linalg.svd(where - where.mean(0), full_matrices=False)[1]
        if count < 10_000
        else np.linalg.svd(np.cov(where.T))[1] ** 0.5
    )
    if spread[1] <= 1e-6 * spread[0]:
        raise GLNError(f"The {count:,} points lie on one line; a mesh needs points on a surface.")
    distinct = len(np.unique(where, axis=0))
    if distinct < count:
        raise GLNError(
            f"{count - distinct:,} of {count:,} points lie exactly on another one; remove them, as with numpy.unique."
        )
    return graph
