"""A good file of every readable format, each with the triangle 0-1-2 and the node 3 where the format has edges."""

from __future__ import annotations

import io
import json
import struct
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from gln.io import Item, ReadOptions, Skipped, read_items

POS = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], dtype=np.float32)
EDGES = [[0, 1], [0, 2], [1, 2]]

CSV = b"id,x,y,z,heat\na,0,0,0,5\nb,1,0,0,6\nc,0,1,0,7\nd,0,0,1,8\n"
OBJ = b"mtllib secret.mtl\nv 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nusemtl skin\nf 1/1/1 2//1 -2\n"
OFF = b"OFF\n# a triangle\n4 1 3\n0 0 0\n1 0 0\n0 1 0\n0 0 1\n3 0 1 2 255 0 0\n"
PLY = (
    b"ply\nformat ascii 1.0\ncomment a triangle\nelement vertex 4\nproperty float x\nproperty float y\n"
    b"property float z\nelement face 1\nproperty list uchar int vertex_indices\nend_header\n"
    b"0 0 0\n1 0 0\n0 1 0\n0 0 1\n3 0 1 2\n"
)
STL_TEXT = (
    b"solid a\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\nendloop\nendfacet\n"
    b"facet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 0 1 0\nvertex 0 0 1\nendloop\nendfacet\nendsolid a\n"
)
XYZ = b"3\nwater\nO 0 0 0\nH 1 0 0\n1 0 1 0\n2\n\nNa 0 0 0\nCl 2.4 0 0\n"
PCD = (
    b"# .PCD v0.7\nVERSION 0.7\nFIELDS intensity x y z\nSIZE 4 4 4 4\nTYPE F F F F\nCOUNT 1 1 1 1\nWIDTH 4\nHEIGHT 1\n"
    b"POINTS 4\nDATA ascii\n9 0 0 0\n9 1 0 0\n9 0 1 0\n9 0 0 1\n"
)
VTK = (
    b"# vtk DataFile Version 3.0\na triangle\nASCII\nDATASET POLYDATA\nPOINTS 4 float\n0 0 0 1 0 0\n0 1 0 0 0 1\n"
    b"POLYGONS 1 4\n3 0 1 2\nPOINT_DATA 4\nSCALARS heat float\n"
)
GML = (
    b'graph [\n node [ id 7 label "a" graphics [ x 0.0 y 0.0 ] ]\n node [ id 8 label "b" graphics [ x 1.0 y 0.0 ] ]\n'
    b' node [ id 9 label "c" graphics [ x 0.0 y 1.0 ] ]\n node [ id 1 label "d" graphics [ x 2.0 y 2.0 ] ]\n'
    b" edge [ source 7 target 8 ]\n edge [ source 9 target 7 ]\n edge [ source 8 target 9 ]\n]\n"
)
SDF = (
    b"water\n  tool\n\n  3  2  0  0  0  0  0  0  0  0999 V2000\n"
    b"    0.0000    0.0000    0.0000 O   0  0\n    1.0000    0.0000    0.0000 H   0  0\n"
    b"    0.0000    1.0000    0.0000 H   0  0\n  1  2  1  0\n  1  3  1  0\nM  END\n> <name>\nwater\n\n$$$$\n"
)
GRAPHML = b"""<?xml version="1.0" encoding="utf-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="d0" for="node" attr.name="x" attr.type="double"/><key id="d1" for="node" attr.name="y" attr.type="double"/>
<graph edgedefault="undirected">
<node id="a"><data key="d0">0</data><data key="d1">0</data></node>
<node id="b"><data key="d0">1</data><data key="d1">0</data></node>
<node id="c"><data key="d0">0</data><data key="d1">1</data></node>
<node id="d"><data key="d0">2</data><data key="d1">2</data></node>
<edge source="a" target="b"/><edge source="c" target="a"/><edge source="b" target="c"/>
</graph></graphml>"""
GEXF = b"""<?xml version="1.0" encoding="UTF-8"?>
<gexf xmlns="http://www.gexf.net/1.2draft" xmlns:viz="http://www.gexf.net/1.2draft/viz" version="1.2">
<graph defaultedgetype="undirected"><nodes>
<node id="a" label="A"><viz:position x="0" y="0" z="0"/></node>
<node id="b" label="B"><viz:position x="1" y="0" z="0"/></node>
<node id="c" label="C"><viz:position x="0" y="1" z="0"/></node>
<node id="d" label="D"><viz:position x="0" y="0" z="1"/></node>
</nodes><edges><edge id="0" source="a" target="b"/><edge id="1" source="c" target="a"/>
<edge id="2" source="b" target="c"/></edges></graph></gexf>"""
JSON = json.dumps(
    {
        "directed": False,
        "nodes": [{"id": name, "pos": row} for name, row in zip("abcd", POS.tolist(), strict=True)],
        "links": [
            {"source": "a", "target": "b"},
            {"source": "c", "target": "a"},
            {"source": "b", "target": "c"},
        ],
    }
).encode()


PDB = b"""\
HETATM    1  C1  LIG A   1       0.000   0.000   0.000  1.00  0.00           C
HETATM    2  O1  LIG A   1       1.200   0.000   0.000  1.00  0.00           O
HETATM    3  N1  LIG A   1       0.000   1.400   0.000  1.00  0.00           N
END
"""
CIF = b"""\
data_x
loop_
_atom_site.group_PDB
_atom_site.id
_atom_site.type_symbol
_atom_site.label_atom_id
_atom_site.label_alt_id
_atom_site.label_comp_id
_atom_site.label_asym_id
_atom_site.label_entity_id
_atom_site.label_seq_id
_atom_site.Cartn_x
_atom_site.Cartn_y
_atom_site.Cartn_z
_atom_site.occupancy
_atom_site.B_iso_or_equiv
_atom_site.auth_seq_id
_atom_site.auth_asym_id
HETATM 1 C C1 . LIG A 1 . 0.0 0.0 0.0 1.0 0.0 1 A
HETATM 2 O O1 . LIG A 1 . 1.2 0.0 0.0 1.0 0.0 1 A
HETATM 3 N N1 . LIG A 1 . 0.0 1.4 0.0 1.0 0.0 1 A
"""


def npy(array: np.ndarray = POS) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def npz(compressed: bool = True, **arrays: np.ndarray) -> bytes:
    file = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(file, **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def stl(triangles: np.ndarray) -> bytes:
    """Binary STL of corners ``[f, 3, 3]``."""
    rows = [struct.pack("<12fH", 0, 0, 0, *corners.reshape(9), 0) for corners in triangles]
    return b"solid but binary".ljust(80) + struct.pack("<I", len(rows)) + b"".join(rows)


def picture(pixels: np.ndarray, kind: str = "PNG") -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return file.getvalue()


COLOURS = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3) * 10  # 2 rows of 3 pixels


def table_file(kind: str) -> bytes:
    """The four points as Parquet or Arrow."""
    import pyarrow as pa
    from pyarrow import feather, parquet

    file = io.BytesIO()
    table = pa.table(dict(zip("xyz", POS.T, strict=True)))
    if kind == ".parquet":
        parquet.write_table(table, file)
    else:
        feather.write_feather(table, file)
    return file.getvalue()


def cloud(compressed: bool) -> bytes:
    """The four points as LAS or LAZ."""
    import laspy

    file, made = io.BytesIO(), laspy.create()
    made.x, made.y, made.z = POS.T
    made.write(file, do_compress=compressed)
    return file.getvalue()


GOOD: dict[str, bytes] = {
    ".csv": CSV,
    ".tsv": CSV.replace(b",", b"\t"),
    ".txt": b"0 0 0\n1 0 0\n0 1 0\n0 0 1\n",
    ".npy": npy(),
    ".npz": npz(pos=POS, edges=np.array(EDGES)),
    ".ply": PLY,
    ".obj": OBJ,
    ".stl": stl(POS[[[0, 1, 2], [0, 2, 3]]]),
    ".off": OFF,
    ".vtk": VTK,
    ".pcd": PCD,
    ".xyz": XYZ,
    ".sdf": SDF + SDF,
    ".pdb": PDB,
    ".ent": PDB,
    ".cif": CIF,
    ".mmcif": CIF,
    ".mol": SDF.replace(b"$$$$\n", b""),
    ".png": picture(COLOURS),
    ".jpg": picture(COLOURS, "JPEG"),
    ".jpeg": picture(COLOURS, "JPEG"),
    ".graphml": GRAPHML,
    ".gexf": GEXF,
    ".gml": GML,
    ".json": JSON,
    ".parquet": table_file(".parquet"),
    ".arrow": table_file(".arrow"),
    ".feather": table_file(".feather"),
    ".las": cloud(False),
    ".laz": cloud(True),
}


@contextmanager
def little_memory(most: int = 2**20) -> Iterator[None]:
    """The block may take no more than ``most`` bytes at any moment."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


def put(folder: Path, name: str, data: bytes | str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def read_one(path: Path, **options: object) -> Item:
    (item,) = read_items([path], ReadOptions(**options))  # type: ignore[arg-type]
    return item


def read_all(*paths: Path, **options: object) -> tuple[list[Item], list[Skipped]]:
    """What could be read, and what could not."""
    bad: list[Skipped] = []
    items = list(read_items(paths, ReadOptions(**options), on_bad=bad.append))  # type: ignore[arg-type]
    return items, bad


def once(item: Item) -> list[list[int]]:
    """Edges i < j of an item, sorted."""
    source, target = item.graph.edge_index
    return item.graph.edge_index.T[source < target].tolist()
