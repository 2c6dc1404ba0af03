"""Meshes from points alone: a model against ball pivoting, Poisson and alpha shapes, on surfaces nobody here made."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from benchmarks.common import timed
from gln.decoding.faces import find_faces
from gln.errors import GLNError
from gln.graphs.triangles import half_edges
from recipes.mesh_files import Mesh, fetch, points_on, read_list, read_mesh

SEED = 0
SAMPLES = 50_000  # points on each surface, of which the distances to the other are taken
RADIUS = 0.003  # of the diagonal of the bounding box, within which a point counts as found
SHARP = np.cos(np.radians(30))  # of the normals of two faces, below which their edge is sharp
ALONG = 10_000  # points on sharp edges
NEIGHBOURS = 16  # of which a normal is estimated
PIVOTS = (
    1.0,
    2.0,
    4.0,
)  # radii of the balls, over the mean distance to the nearest point; as Open3D's guide has them
ALPHA = 6.0  # of an alpha shape, over the same distance: of 2 to 6 the best on the family shapes
DEPTH = 8  # of Poisson's octree, Open3D's usual one
NEAREST, AT, FALL = 16, 3.2, 8.9  # chances of edges by length: fitted on the family shapes
HIGHER = ("f1", "normals", "manifold", "watertight")  # where more is better

# Vertices and faces of points, and whether the surface is open.
Method = Callable[[np.ndarray, bool], tuple[np.ndarray, np.ndarray]]


def run(
    points: int = 10_000,
    noise: tuple[float, ...] = (0.0, 0.01),
    model: str = "shapes",
    methods: tuple[str, ...] = ("GLN", "nearest", "ball pivoting", "Poisson", "alpha shape"),
    meshes: int = 1000,
    largest: int = 400_000,
    beside: Path | None = None,
) -> dict[str, Any]:
    """Sample the test meshes, reconstruct them, and compare.

    Args:
        points: points on every mesh, uniform over its surface.
        noise: deviations, over the root of the area per point.
        model: a saved model or the name of a shipped one.
        methods: which to measure: ``GLN`` and those of ``RULES``.
        meshes: how many, spread over the list.
        largest: leave out meshes of more triangles.
        beside: an earlier result of the same command, of which the other methods are taken.
    """
    if unknown := set(methods) - {"GLN", *RULES}:
        raise GLNError(f"Got the methods {sorted(unknown)}; expected some of {['GLN', *RULES]}.")
    chosen = {name: partial(by_model, load(model)) if name == "GLN" else RULES[name] for name in methods}
    listed = [row for row in read_list() if row.triangles <= largest]
    meshes = min(meshes, len(listed))
    listed = [listed[number * len(listed) // meshes] for number in range(meshes)]
    files = fetch(rows=listed)
    found: dict[tuple[str, float], list[dict[str, Any]]] = defaultdict(list)
    for row in listed:
        path = files[row.sha256]
        truth = read_mesh(path.read_bytes(), path.suffix)
        for deviation in noise:
            where = sampled(truth, points, deviation)
            for name, method in chosen.items():
                try:
                    (vertices, faces), seconds = timed(partial(method, where, row.kind == "open"))
                    scores = compare(truth, Mesh(vertices, faces)) if len(faces) else {}
                except (RuntimeError, ValueError) as error:  # Open3D, of some sets of points
                    scores, seconds = {"failed": str(error)}, float("nan")
                about = {"mesh": row.name, "kind": row.kind, "sharp": row.sharp}
                found[name, deviation].append(about | scores | {"seconds": seconds})
        print(
            row.name, {name: round(each[-1].get("f1", 0), 3) for (name, _), each in found.items()}, flush=True
        )
    rows = [
        {"method": name, "noise": deviation, **summary(each)} for (name, deviation), each in found.items()
    ]
    if beside is not None:
        earlier = json.loads(beside.read_text())
        if [earlier["settings"][name] for name in ("points", "meshes", "radius")] != [
            points,
            len(listed),
            RADIUS,
        ]:
            raise GLNError(f"{beside} was measured with other settings.")
        found |= {
            (one["method"], one["noise"]): one["meshes"] for one in earlier["each"] if one["noise"] in noise
        }
        rows += [row for row in earlier["rows"] if row["noise"] in noise]
    settings = {
        "seed": SEED, "points": points, "meshes": len(listed), "model": model, "radius": RADIUS, "samples": SAMPLES,
        "pivots": list(PIVOTS), "alpha": ALPHA, "depth": DEPTH,
    }  # fmt: skip
    each = [{"method": name, "noise": deviation, "meshes": them} for (name, deviation), them in found.items()]
    return {"name": "mesh", "rows": rows, "each": each, "better": better(found), "settings": settings}


def load(model: str) -> Any:
    from gln.workflows.methods import load_for

    return load_for("predict", model)


def sampled(mesh: Mesh, count: int, noise: float) -> np.ndarray:
    """Points on a surface, with noise, in no order; none lies on another."""
    where, _ = points_on(mesh, count, SEED)
    area = np.linalg.norm(crosses(mesh), axis=1).sum() / 2
    rng = np.random.default_rng(SEED)
    where = where + noise * np.sqrt(area / count) * rng.standard_normal(where.shape)
    return rng.permutation(np.unique(where, axis=0))


def crosses(mesh: Mesh) -> np.ndarray:
    a, b, c = mesh.vertices[mesh.faces.T]
    return np.cross(b - a, c - a)


def by_model(model: Any, where: np.ndarray, open: bool) -> tuple[np.ndarray, np.ndarray]:
    import gln

    made = gln.mesh(where, model, open=open)
    return np.asarray(made.vertices), np.asarray(made.faces)


def by_length(where: np.ndarray, open: bool) -> tuple[np.ndarray, np.ndarray]:
    """The same faces from edges whose chances depend on nothing but their length, in local units."""
    count = len(where)
    far, near = cKDTree(where).query(where, NEAREST + 1)
    unit = far[:, 1:5].mean(1)
    ends = np.sort(np.stack([np.repeat(np.arange(count), NEAREST), near[:, 1:].ravel()], axis=1), axis=1)
    pairs = np.stack(np.divmod(np.unique(ends @ [count, 1]), count), axis=1)
    one, two = pairs.T
    length = np.linalg.norm(where[one] - where[two], axis=1) / np.sqrt(unit[one] * unit[two])
    chances = 1 / (1 + np.exp(FALL * np.log(length) - AT))
    return where, find_faces(where, pairs, chances, open)


def open3d() -> Any:
    """The package, which says nothing of what it does."""
    try:
        import open3d
    except ImportError:
        raise GLNError(
            "The rules need open3d, which is not installed; pip install open3d, or --methods GLN."
        ) from None
    open3d.utility.set_verbosity_level(open3d.utility.VerbosityLevel.Error)
    return open3d


def cloud(where: np.ndarray, normals: bool) -> tuple[Any, float]:
    """Open3D's points, perhaps with estimated normals, and the mean distance to the nearest one."""
    peer = open3d()
    points = peer.geometry.PointCloud(peer.utility.Vector3dVector(where))
    if normals:
        points.estimate_normals(peer.geometry.KDTreeSearchParamKNN(NEIGHBOURS))
        points.orient_normals_consistent_tangent_plane(NEIGHBOURS)
    return points, float(np.mean(points.compute_nearest_neighbor_distance()))


def arrays(mesh: Any) -> tuple[np.ndarray, np.ndarray]:
    return np.asarray(mesh.vertices), np.asarray(mesh.triangles).astype(np.int64)


def pivoted(where: np.ndarray, open: bool) -> tuple[np.ndarray, np.ndarray]:
    points, unit = cloud(where, normals=True)
    radii = open3d().utility.DoubleVector([factor * unit for factor in PIVOTS])
    return arrays(open3d().geometry.TriangleMesh.create_from_point_cloud_ball_pivoting(points, radii))


def poisson(where: np.ndarray, open: bool) -> tuple[np.ndarray, np.ndarray]:
    points, _ = cloud(where, normals=True)
    # With one thread, as with several it gives another mesh each time.
    return arrays(
        open3d().geometry.TriangleMesh.create_from_point_cloud_poisson(points, depth=DEPTH, n_threads=1)[0]
    )


def alpha(where: np.ndarray, open: bool) -> tuple[np.ndarray, np.ndarray]:
    points, unit = cloud(where, normals=False)
    return arrays(open3d().geometry.TriangleMesh.create_from_point_cloud_alpha_shape(points, ALPHA * unit))


# By ``nearest``, the same faces are made of lengths alone.
RULES: dict[str, Method] = {
    "nearest": by_length,
    "ball pivoting": pivoted,
    "Poisson": poisson,
    "alpha shape": alpha,
}


def compare(truth: Mesh, made: Mesh) -> dict[str, Any]:
    """How near the surfaces are to one another, with the diagonal of the true one as the unit of length.

    ==============  ==================================================================================================
    ``chamfer``     the mean distance from points of one to the other, the mean of both ways, times 100
    ``f1``          of the shares of points within ``RADIUS`` of the other
    ``normals``     the mean |cosine| between the normals at nearest points, the mean of both ways
    ``edges``       as ``chamfer``, of points on sharp edges; none where the true surface has no such edges
    ``manifold``    the share of edges with one or two faces
    ``watertight``  whether each has two
    ==============  ==================================================================================================
    """
    (recall, far, turned), (precision, further, back) = (
        to_surface(*both) for both in ((truth, made), (made, truth))
    )
    facts = describe_any(made)
    sharp = sharp_points(truth), sharp_points(made)
    both = min(map(len, sharp)) > 0
    edges = [cKDTree(sharp[1 - one]).query(sharp[one])[0].mean() for one in (0, 1)] if both else []
    return {
        "chamfer": 100 * (far + further) / 2,
        "f1": 2 * precision * recall / max(precision + recall, 1e-9),
        "normals": (turned + back) / 2,
        "edges": 100 * float(np.mean(edges)) if both else None,
        **facts,
    }


def to_surface(mesh: Mesh, other: Mesh) -> tuple[float, float, float]:
    """Of points on a mesh, to the nearest place of another: the share within reach, mean distance, mean |cosine|."""
    where, face = points_on(mesh, SAMPLES, SEED + 1)
    scene = open3d().t.geometry.RaycastingScene(nthreads=1)
    scene.add_triangles(other.vertices.astype(np.float32), other.faces.astype(np.uint32))
    found = scene.compute_closest_points(where.astype(np.float32), nthreads=1)
    far = np.linalg.norm(where - found["points"].numpy(), axis=1)
    cosine = (normals_of(mesh)[face] * normals_of(other)[found["primitive_ids"].numpy()]).sum(1)
    return float((far < RADIUS).mean()), float(far.mean()), float(np.abs(cosine).mean())


def normals_of(mesh: Mesh) -> np.ndarray:
    normals = crosses(mesh)
    return normals / np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-300)


def describe_any(mesh: Mesh) -> dict[str, Any]:
    _, uses = np.unique(np.sort(half_edges(mesh.faces), axis=1) @ [len(mesh.vertices), 1], return_counts=True)
    return {
        "manifold": float((uses <= 2).mean()),
        "watertight": bool((uses == 2).all()),
        "faces": len(mesh.faces),
    }


def sharp_points(mesh: Mesh) -> np.ndarray:
    """Points evenly along the edges where two faces turn by more than 30°."""
    normals, halves = normals_of(mesh), half_edges(mesh.faces)
    key, back = halves @ [len(mesh.vertices), 1], halves @ [1, len(mesh.vertices)]
    order = np.argsort(key)
    place = np.searchsorted(key[order], back).clip(max=len(key) - 1)
    there = (key[order][place] == back) & (halves[:, 0] < halves[:, 1])
    beside = order[place[there]] // 3
    sharp = (normals[np.flatnonzero(there) // 3] * normals[beside]).sum(1) < SHARP
    one, two = mesh.vertices[halves[there][sharp].T]
    length = np.linalg.norm(two - one, axis=1)
    if not length.sum():
        return np.empty((0, 3))
    at = (np.arange(ALONG) + 0.5) / ALONG * length.sum()
    edge = np.searchsorted(np.cumsum(length), at).clip(max=len(length) - 1)
    share = (at - (np.cumsum(length) - length)[edge]) / np.maximum(length[edge], 1e-300)
    return one[edge] + share[:, None] * (two - one)[edge]


def summary(each: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over meshes; medians of what a single failure would spoil."""
    made = [one for one in each if "f1" in one]
    if not made:
        return {"failed": len(each)}
    closed = [one["watertight"] for one in made if one["kind"] == "closed"]
    return {
        "median_chamfer": median(one["chamfer"] for one in made),
        **{name: fmean(one[name] for one in made) for name in ("f1", "normals", "manifold")},
        "median_edges": median([one["edges"] for one in made if one["edges"] is not None] or [0.0]),
        "watertight": fmean(closed) if closed else None,
        "failed": len(each) - len(made),
        "seconds": median(one["seconds"] for one in made),
    }


def better(found: dict[tuple[str, float], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """On which share of the meshes GLN is better than each rule."""
    shares = []
    for (name, noise), theirs in found.items():
        ours = found.get(("GLN", noise))
        if ours is None or name == "GLN":
            continue
        share: dict[str, Any] = {"than": name, "noise": noise}
        for score in ("chamfer", "f1", "normals", "edges"):
            sign = 1 if score in HIGHER else -1
            pairs = [(a.get(score), b.get(score)) for a, b in zip(ours, theirs, strict=True)]
            wins = [b is None or sign * (a - b) > 0 for a, b in pairs if a is not None]
            share[score] = fmean(wins) if wins else None
        shares.append(share)
    return shares
