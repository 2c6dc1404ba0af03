"""Molecules: frames, elements, bonds."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from gln.errors import GLNError
from gln.io import ReadOptions, read_items
from gln.io.molecules import ELEMENTS, SYMBOLS
from tests.io.samples import SDF, XYZ, once, put, read_all, read_one


def test_frames_of_an_xyz_file_are_graphs_without_bonds(tmp_path: Path) -> None:
    water, salt = read_items([put(tmp_path, "m.xyz", XYZ)])
    assert (water.name, salt.name) == ("m.xyz#0", "m.xyz#1")
    assert water.graph.pos.tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0]]
    assert water.graph.x.argmax(dim=1).tolist() == [ELEMENTS.index("O"), 0, 0]  # the last by its number
    assert salt.graph.x.argmax(dim=1).tolist() == [len(ELEMENTS), ELEMENTS.index("Cl")]  # sodium is other
    assert water.graph.x.sum(dim=1).tolist() == [1, 1, 1]
    assert not water.labelled


def test_a_single_molecule_is_named_by_its_file(tmp_path: Path) -> None:
    assert read_one(put(tmp_path, "m.xyz", XYZ[: XYZ.index(b"2\n\n")])).name == "m.xyz"
    assert read_one(put(tmp_path, "m.sdf", SDF)).name == "m.sdf"


def test_elements_may_be_chosen(tmp_path: Path) -> None:
    path = put(tmp_path, "m.xyz", XYZ)
    first, _ = read_items([path], ReadOptions(elements=("o", "H")))
    assert first.graph.x.tolist() == [[1, 0, 0], [0, 1, 0], [0, 1, 0]]
    for elements in (("Qq",), ("H", "H")):
        with pytest.raises(GLNError, match="must be distinct symbols"):
            list(read_items([path], ReadOptions(elements=elements)))


def test_heavy_hydrogen_is_hydrogen(tmp_path: Path) -> None:
    x = [read_one(put(tmp_path, "m.xyz", b"1\n\n%s 0 0 0\n" % name)).graph.x for name in (b"H", b"D", b"T")]
    assert torch.equal(x[0], x[1])
    assert torch.equal(x[0], x[2])


def test_bonds_of_an_sdf_are_its_truth(tmp_path: Path) -> None:
    items, bad = read_all(put(tmp_path, "m.sdf", SDF + SDF.replace(b"  1  3  1  0", b"  3  2  1  0")))
    assert not bad
    assert [item.name for item in items] == ["m.sdf#0", "m.sdf#1"]
    assert [once(item) for item in items] == [[[0, 1], [0, 2]], [[0, 1], [1, 2]]]
    assert all(item.labelled for item in items)
    xyz = next(read_items([put(tmp_path, "m.xyz", XYZ)]))
    assert torch.equal(items[0].graph.pos, xyz.graph.pos)
    assert torch.equal(items[0].graph.x, xyz.graph.x)


def test_a_bad_molecule_is_skipped_and_the_next_ones_are_read(tmp_path: Path) -> None:
    items, bad = read_all(put(tmp_path, "m.sdf", SDF + SDF.replace(b"0.0000 O", b"0.0000 Oo") + SDF))
    assert [item.name for item in items] == ["m.sdf#0", "m.sdf#2"]
    assert [skipped.reason for skipped in bad] == ["graph 1: row 19: 'Oo' is not a chemical element."]
    items, bad = read_all(put(tmp_path, "m.xyz", XYZ.replace(b"H 1 0 0", b"H 1 zero 0")))
    assert [item.name for item in items] == ["m.xyz#1"]
    assert [skipped.reason for skipped in bad] == ["graph 0: row 4: got '1 zero 0'; expected numbers."]


def test_what_comes_before_a_file_is_cut_off_is_read(tmp_path: Path) -> None:
    items, bad = read_all(put(tmp_path, "m.xyz", XYZ + b"3\n\nO 0 0 0\n"))
    assert [item.name for item in items] == ["m.xyz#0", "m.xyz#1"]
    assert "claims 3 atoms, but the file ends after 1" in bad[0].reason


@pytest.mark.parametrize("written", [b"\xef\xbb\xbf" + XYZ, XYZ.replace(b"\n", b"\r\n"), XYZ + b"\n\n"])
def test_files_of_other_systems_are_the_same(written: bytes, tmp_path: Path) -> None:
    same, usual = (read_all(put(tmp_path, name, data)) for name, data in (("a.xyz", written), ("b.xyz", XYZ)))
    assert not same[1]
    assert [item.symbols for item in same[0]] == [item.symbols for item in usual[0]]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        (
            "m.xyz",
            b"0.5 0.5\n",
            r"row 1 is '0\.5 0\.5'; expected the number of atoms, or x, y, z in every row",
        ),
        ("m.xyz", b"0 0 0\n1 1\n", r"row 2 has 2 numbers; expected x, y, z"),
        ("m.xyz", b"1\nProperties=pos:R:3:species:S:1\n0 0 0 H\n", "row 2: expected Properties=species"),
        ("m.xyz", b"4000000000\n\n", "a graph has 4,000,000,000 nodes; at most 1,000,000"),
        ("m.xyz", b"5\n\nH 0 0 0\n", "row 1 claims 5 atoms, but the file ends after 1"),
        ("m.xyz", b"9" * 5000, "whole numbers"),
        ("m.xyz", b"1\n\nH 0 0\n", "row 3 is 'H 0 0'; expected an element and x, y, z"),
        ("m.xyz", b"1\n\n200 0 0 0\n", "row 3: '200' is not a chemical element"),
        ("m.xyz", b"1\n\nH nan 0 0\n", "pos of node 0"),
        ("m.xyz", b"0\n\n", "no nodes"),
        ("m.xyz", b"1" * 2**17, "row 1 is longer"),
        ("m.mol", SDF.replace(b"V2000", b"V4000"), "expected a V2000 or V3000 counts line"),
        ("m.mol", b"a\nb\n", "ends a record before its counts line"),
        ("m.mol", SDF.replace(b"  3  2  0", b"  3 99  0"), "claims 3 atoms and 99 bonds"),
        (
            "m.mol",
            SDF.replace(b"  1  3  1  0", b"  1  4  1  0"),
            "row 9: a bond joins 1 and 4; the atoms are numbered 1 to 3",
        ),
        ("m.mol", SDF.replace(b"  1  3  1  0", b"  1  1  1  0"), "row 9: a bond joins 1 and 1"),
        ("m.mol", SDF.replace(b"    1.0000    0.0000", b"    1.0000    0.00x0"), "row 6: got"),
    ],
)
def test_a_bad_file_names_the_row(name: str, data: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(GLNError, match=message):
        list(read_items([put(tmp_path, name, data)]))


def test_the_elements_are_in_the_order_of_their_numbers() -> None:
    assert len(SYMBOLS) == len(set(SYMBOLS)) == 118
    assert [SYMBOLS[number - 1] for number in (1, 6, 26, 79, 92, 118)] == ["H", "C", "Fe", "Au", "U", "Og"]
    assert set(ELEMENTS) < set(SYMBOLS)


def test_an_xyz_of_numbers_alone_is_a_cloud(tmp_path: Path) -> None:
    item = read_one(put(tmp_path, "scan.xyz", b"0.5 1 2 255 0 0\n\n3 4 5 0 255 0\n"))
    assert item.graph.pos.tolist() == [[0.5, 1, 2], [3, 4, 5]]
    assert item.graph.x is None
    assert not item.labelled


def test_what_is_not_used_of_a_molecule_is_said(tmp_path: Path) -> None:
    said: list[str] = []
    box = b'2\nLattice="5 0 0 0 5 0 0 0 5" Properties=species:S:1:pos:R:3:forces:R:3\nSi 0 0 0 1 1 1\nH 1 0 0 1 1 1\n'
    (item,) = read_items([put(tmp_path, "box.xyz", box)], say=said.append)
    assert item.graph.pos.tolist() == [[0, 0, 0], [1, 0, 0]]
    assert any("its lattice is not used" in text for text in said)
    assert any("one for all: Si; see --elements" in text for text in said)


def test_titles_and_elements_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "two.xyz"
    path.write_text("2\ncarbon  monoxide\nC 0 0 0\nO 0 0 1.1\n1\n\nHe 0 0 0\n")
    first, second = read_items([path])
    assert (first.caption, first.symbols) == ("two.xyz#0 · carbon monoxide", ["C", "O"])
    assert (second.caption, second.symbols) == ("two.xyz#1", ["He"])
