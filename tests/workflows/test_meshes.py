"""Meshes from points: in Python, and as files that other programs read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import gln
from gln.errors import GLNError
from gln.graphs.record import Graph
from gln.io import Item, open_writer, read_items
from gln.workflows.forms import LEAST, Meshing, check_points, keep_faces
from tests.decoding.test_faces import ball, edges_of

SURFACE = {"config": {"pos_channels": 3}, "training": {"surface": True}}
EDGES = {"config": {"pos_channels": 3}}


def answered() -> tuple[np.ndarray, np.ndarray, Graph]:
    """A ball, its triangles, and a prediction that lacks one edge of theirs and has one too many."""
    points, triangles = ball(40)
    edges = edges_of(triangles)[1:]
    far = next([0, other] for other in range(40) if other and [0, other] not in edges_of(triangles).tolist())
    both = np.concatenate([edges, [far]])
    both = np.concatenate([both, both[:, ::-1]]).T
    answer = Graph(40, edge_index=torch.from_numpy(both.copy()), edge_prob=torch.full((both.shape[1],), 0.9))
    return points, triangles, answer


def test_a_prediction_keeps_the_edges_of_its_faces() -> None:
    _, triangles, answer = answered()
    keep_faces(answer, triangles)
    assert np.array_equal(answer.edges_once(), edges_of(triangles))
    once = answer.scored_once()[1]
    assert sorted(set(np.round(once.tolist(), 4))) == [LEAST, 0.9]


@pytest.mark.parametrize("suffix", [".ply", ".obj", ".off", ".stl"])
def test_what_is_written_is_read_again(tmp_path: Path, suffix: str) -> None:
    points, triangles, answer = answered()
    keep_faces(answer, triangles)
    path = tmp_path / f"mesh{suffix}"
    nodes = Graph(40, pos=torch.from_numpy(points.astype(np.float32)))
    with open_writer(path) as writer:
        writer.add(Item("mesh", path, nodes, labelled=False, ids=None), answer)
    (item,) = read_items([path])
    found = item.graph
    assert found.num_nodes == 40
    place = {tuple(row): node for node, row in enumerate(nodes.pos.tolist())}
    same = np.array([place[tuple(row)] for row in found.pos.tolist()])  # an .stl has another order
    assert {tuple(sorted(pair)) for pair in same[found.edges_once()].tolist()} == set(
        map(tuple, edges_of(triangles).tolist())
    )


def test_faces_are_written_where_they_are_wanted_or_nothing_else_can_be() -> None:
    def of(faces: str, name: str, facts: dict = SURFACE) -> Meshing | None:
        return Meshing.of(faces, Path(name), facts, "shapes")  # type: ignore[arg-type]

    assert (
        of("auto", "mesh.ply")
        == of("closed", "mesh.obj", EDGES)
        == of("auto", "mesh.stl", EDGES)
        == Meshing(False)
    )
    assert of("open", "mesh.ply") == Meshing(True)
    assert of("auto", "mesh.csv") is of("no", "mesh.ply") is of("auto", "mesh.ply", EDGES) is None
    for faces, name in (("closed", "mesh.csv"), ("no", "mesh.stl")):
        with pytest.raises(GLNError):
            of(faces, name)
    with pytest.raises(GLNError, match="2 coordinates"):
        of("closed", "mesh.ply", {"config": {"pos_channels": 2}})


def test_points_that_no_surface_runs_through_are_refused() -> None:
    def refused(points: np.ndarray, words: str) -> None:
        with pytest.raises(GLNError, match=words):
            check_points(Graph(len(points), pos=torch.from_numpy(points)))

    refused(np.zeros((5, 2)), "2 coordinates")
    refused(np.eye(3), "at least 4")
    refused(np.arange(10.0)[:, None] * [1, 2, 3], "one line")
    refused(np.concatenate([np.eye(4)[:, :3], np.eye(4)[:1, :3]]), "exactly on another")


def test_any_model_of_points_in_space_gives_a_mesh() -> None:
    torch.manual_seed(0)
    model = gln.GLN(pos_channels=3, width=8, pair_width=8, steps=1, candidates=8, sparse=True)
    points, _ = ball(60)
    made = gln.mesh(points, model)
    assert np.array_equal(np.asarray(made.vertices, np.float32), points.astype(np.float32))
    sides = np.sort(np.asarray(made.faces)[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
    assert np.unique(sides, axis=0, return_counts=True)[1].max(initial=0) <= 2
