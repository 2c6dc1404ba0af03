"""Ligands of PDB and mmCIF files."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from gln.errors import GLNError
from gln.io import read_items

ROW = (
    "{kind:<6}{serial:>5} {name:<4}{alt}{residue:>3} {chain}{number:>4}    "
    "{x:8.3f}{y:8.3f}{z:8.3f}  1.00 10.00          {element:>2}"
)


def row(
    serial: int,
    name: str,
    residue: str,
    number: int,
    where: tuple[float, float, float],
    element: str,
    kind: str = "HETATM",
    alt: str = " ",
    chain: str = "A",
) -> str:
    x, y, z = where
    name = f" {name}" if len(element) == 1 else name
    return ROW.format(**locals())


PEPTIDE = [
    row(10 * number + place, name, "ALA", number, (3.8 * number + place, 0.5 * place, 0), name[0], "ATOM")
    for number in range(1, 6)
    for place, name in enumerate(("N", "CA", "C", "O", "CB"))
]
LIGAND = [row(100, "C1", "ETH", 201, (0, 20, 0), "C"), row(101, "O1", "ETH", 201, (1.4, 20, 0), "O")]
SUGARS = [row(110, "C1", "NAG", 301, (0, 40, 0), "C"), row(111, "O4", "NAG", 302, (1.4, 40, 0), "O")]
ION = [row(120, "ZN", "ZN", 401, (30, 30, 0), "ZN")]
WATER = [row(130, "O", "HOH", 501, (50, 30, 0), "O")]


def write(folder: Path, rows: list[str], name: str = "x.pdb") -> Path:
    pytest.importorskip("gemmi")
    path = folder / name
    path.write_text("\n".join([*rows, "END", ""]))
    return path


def test_a_complex_gives_its_ligands(tmp_path: Path) -> None:
    path = write(tmp_path, [*PEPTIDE, "TER", *LIGAND, *SUGARS, *ION, *WATER])
    found = list(read_items([path]))
    assert [item.part for item in found] == ["A/ETH201", "A/NAG301", "A/ZN401"]
    assert [list(item.symbols or ()) for item in found] == [["C", "O"], ["C", "O"], ["Zn"]]
    assert found[0].graph.pos.tolist() == [[0, 20, 0], pytest.approx([1.4, 20, 0])]
    assert not any(item.labelled for item in found)


def test_a_polymer_alone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GLNError, match="no ligand to read"):
        list(read_items([write(tmp_path, [*PEPTIDE, "TER", *WATER])]))


def test_of_alternative_locations_the_first_is_read(tmp_path: Path) -> None:
    first = row(2, "O1", "LIG", 1, (1.4, 0, 0), "O", alt="A")
    second = row(3, "O1", "LIG", 1, (1.5, 0.1, 0), "O", alt="B")
    (item,) = read_items([write(tmp_path, [row(1, "C1", "LIG", 1, (0, 0, 0), "C"), first, second])])
    assert np.allclose(item.graph.pos, [[0, 0, 0], [1.4, 0, 0]])


def test_a_file_without_a_polymer_is_one_molecule(tmp_path: Path) -> None:
    (item,) = read_items([write(tmp_path, [*LIGAND, row(140, "CL", "CL", 9, (9, 9, 9), "CL")])])
    assert item.part is None
    assert item.symbols == ["C", "O", "Cl"]


def test_mmcif_gives_the_same(tmp_path: Path) -> None:
    gemmi = pytest.importorskip("gemmi")
    pdb = write(tmp_path, [*PEPTIDE, "TER", *LIGAND])
    structure = gemmi.read_structure(str(pdb))
    structure.setup_entities()
    structure.make_mmcif_document().write_file(str(tmp_path / "x.cif"))
    (one,), (other,) = read_items([pdb]), read_items([tmp_path / "x.cif"])
    assert one.symbols == other.symbols == ["C", "O"]
    assert one.graph.pos.tolist() == other.graph.pos.tolist()


@pytest.mark.parametrize(
    ("name", "text"), [("x.pdb", "hello\n"), ("x.cif", "hello\n"), ("x.cif", "data_x\n")]
)
def test_a_file_that_holds_no_atoms_is_refused(tmp_path: Path, name: str, text: str) -> None:
    pytest.importorskip("gemmi")
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(GLNError, match=r"holds no nodes|not a readable"):
        list(read_items([path]))


def test_a_name_that_is_no_text_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("gemmi")
    path = write(tmp_path, LIGAND)
    path.write_bytes(path.read_bytes().replace(b"ETH", b"\xc8TH"))
    with pytest.raises(GLNError, match="not a readable PDB file"):
        list(read_items([path]))


def test_without_gemmi_one_sentence_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, LIGAND)
    monkeypatch.setitem(sys.modules, "gemmi", None)
    with pytest.raises(GLNError, match=r"gln\[molecules\]"):
        list(read_items([path]))
