"""Meshes from points: what a model says of the pairs, and the surface that follows from it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np

from gln.errors import GLNError
from gln.graphs.record import Graph
from gln.graphs.triangles import half_edges
from gln.inference.choice import Choice
from gln.io.meshes import MESHES
from gln.later import torch
from gln.models.settings import input_widths

if TYPE_CHECKING:
    from gln.inference.predict import Method
    from gln.io.items import Item
    from gln.workflows.answers import Outcome

FEWEST = 4  # points of a solid
LEAST = 0.02  # edges less likely than this are not looked at
EITHER = (".ply", ".obj")  # files of edges, or of faces

Faces = Literal["auto", "closed", "open", "no"]


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
    from gln.inference.predict import as_method, as_points, predict_graphs  # here, as they load torch

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


@dataclass(frozen=True)
class Meshing:
    """Turns the answers of a prediction into meshes, whose edges are those of their ``face [3, t]``."""

    open: bool
    least: ClassVar[float] = LEAST

    @classmethod
    def of(cls, faces: Faces, output: Path, facts: dict[str, Any], name: str) -> Meshing | None:
        """What ``--faces`` asks for; by default faces where the file holds nothing else, or the model knows surfaces.

        ``facts`` are the ``config`` and ``training`` of the saved model ``name``.
        """
        kind = output.suffix.lower()
        if faces == "no" or (faces == "auto" and kind not in (*MESHES, *EITHER)):
            if kind in MESHES:
                raise GLNError(f"{output.name} can hold nothing but faces; write a .ply, an .obj or a .csv.")
            return None
        knows = bool((facts.get("training") or {}).get("surface"))
        if faces == "auto" and kind in EITHER and not knows:
            return None
        if kind not in (*MESHES, *EITHER):
            raise GLNError(f"{output.name} cannot hold faces; write {', '.join((*EITHER, *MESHES))}.")
        if (width := (facts.get("config") or {}).get("pos_channels")) not in (3, None):
            raise GLNError(f"{name} reads points with {width} coordinates; faces need x, y and z.")
        return cls(faces == "open")

    def checked(self, item: Item) -> Item:
        """The item; refuse points that no surface runs through."""
        check_points(item.graph)
        return item

    def made(self, item: Item, answer: Graph, done: Outcome) -> Graph:
        """The ``answer`` as a mesh, which ``done`` tells about."""
        from gln.decoding.faces import describe

        faces = faces_of(item.graph, answer, self.open)
        done.remarks.append(f"{item.name}: {describe(answer.num_nodes, faces)}")
        keep_faces(answer, faces)
        return answer


def keep_faces(answer: Graph, faces: np.ndarray) -> None:
    """Leave of a prediction the edges of the faces; those that close a hole or bend less may be unlikely."""
    count, sides = answer.num_nodes, half_edges(faces)
    key = np.unique(np.concatenate([sides @ [count, 1], sides @ [1, count]]))
    known = answer.edge_index.numpy(force=True).T @ [count, 1]
    _, place, there = np.intersect1d(key, known, assume_unique=True, return_indices=True)
    chance = np.full(len(key), LEAST, np.float32)
    chance[place] = answer.edge_prob.numpy(force=True)[there]
    answer.edge_index = torch.from_numpy(np.stack(np.divmod(key, count)))
    answer["edge_prob"] = torch.from_numpy(chance)
    answer["face"] = torch.from_numpy(np.ascontiguousarray(faces.T))


def check_points(graph: Graph) -> Graph:
    """Refuse points that no surface runs through."""
    width = graph.widths[0]
    if width != 3:
        raise GLNError(f"Got points with {width} coordinates; a mesh needs x, y and z.")
    count = graph.num_nodes
    if count < FEWEST:
        raise GLNError(f"Got {count} points; a mesh needs at least {FEWEST}.")
    where = graph.pos.numpy(force=True).astype(np.float64)
    spread = np.linalg.svd(np.cov(where.T))[1] ** 0.5
    if spread[1] <= 1e-6 * spread[0]:
        raise GLNError(f"The {count:,} points lie on one line; a mesh needs points on a surface.")
    distinct = len(np.unique(where, axis=0))
    if distinct < count:
        raise GLNError(
            f"{count - distinct:,} of {count:,} points lie exactly on another one; remove them, as with numpy.unique."
        )
    return graph
