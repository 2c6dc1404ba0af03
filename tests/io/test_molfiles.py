"""Molecules that we write are read back, by us and by rdkit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gln.errors import GLNError
from gln.graphs import make_graph
from gln.graphs.record import Graph
from gln.io import Item, ReadOptions, open_writer, read_items
from gln.io.molfiles import mol_block, sanitised


def molecule(
    symbols: str,
    bonds: list[tuple[int, int, int]],
    charges: dict[int, int] | None = None,
    hydrogens: dict[int, int] | None = None,
    where: np.ndarray | None = None,
) -> tuple[list[str], np.ndarray, Graph]:
    elements = symbols.split()
    count = len(elements)
    if where is None:
        where = np.random.default_rng(0).uniform(-5, 5, (count, 3)).round(4)
    ends = [[a, b] for a, b, _ in bonds]
    orders = torch.tensor([order for _, _, order in bonds], dtype=torch.int64)
    graph = make_graph(where, None, ends, edge_type=orders)
    graph.edge_order = graph.edge_type
    graph.edge_prob = torch.full((graph.num_edges,), 0.875)
    graph.charge = torch.tensor([(charges or {}).get(atom, 0) for atom in range(count)])
    graph.hydrogens = torch.tensor([(hydrogens or {}).get(atom, 0) for atom in range(count)])
    graph.molecule_prob = 0.75
    return elements, where, graph


def item_of(name: str, symbols: list[str], where: np.ndarray) -> Item:
    nodes = make_graph(where)
    return Item(name, Path(name), nodes, labelled=False, ids=None, symbols=symbols)


ACETATE = molecule(
    "C C O O H H H", [(0, 1, 1), (1, 2, 2), (1, 3, 1), (0, 4, 1), (0, 5, 1), (0, 6, 1)], {3: -1}
)
METHYLAMMONIUM = molecule("C N", [(0, 1, 1)], {1: 1}, {0: 3, 1: 3})


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "two.sdf"
    with open_writer(path) as writer:
        for name, (symbols, where, graph) in (("acetate", ACETATE), ("amine", METHYLAMMONIUM)):
            writer.add(item_of(name, symbols, where), graph)
    text = path.read_text()
    assert text.count("$$$$\n") == 2
    assert ">  <confidence>\n0.7500\n" in text
    assert ">  <bond_confidence>\n" + " ".join(["0.8750"] * 6) in text
    first, second = read_items([path], ReadOptions(types="order", node_types="charge"))
    assert first.title == "acetate"
    assert first.symbols == ACETATE[0]
    assert np.allclose(first.graph.pos, ACETATE[1], atol=1e-4)
    assert first.graph.edges_once().tolist() == ACETATE[2].edges_once().tolist()
    words = [first.graph.node_type_names[number] for number in first.graph.node_type]
    assert words == ["0", "0", "0", "-1", "0", "0", "0"]
    assert second.graph.num_nodes == 2


def test_rdkit_reads_bonds_charges_and_hydrogens(tmp_path: Path) -> None:
    chem = pytest.importorskip("rdkit.Chem")
    path = tmp_path / "one.sdf"
    with open_writer(path) as writer:
        writer.add(item_of("acetate", ACETATE[0], ACETATE[1]), ACETATE[2])
        writer.add(item_of("amine", METHYLAMMONIUM[0], METHYLAMMONIUM[1]), METHYLAMMONIUM[2])
    acetate, amine = chem.SDMolSupplier(str(path), removeHs=False)
    assert chem.MolToSmiles(chem.RemoveHs(acetate)) == "CC(=O)[O-]"
    assert chem.MolToSmiles(amine) == "C[NH3+]"
    assert acetate.GetDoubleProp("confidence") == 0.75


@pytest.mark.parametrize(
    ("symbols", "bonds", "charges", "hydrogens", "smiles"),
    [
        ("S", [], {}, {0: 4}, "[SH4]"),  # not what a reader would guess
        ("P C", [(0, 1, 1)], {}, {0: 4, 1: 3}, "C[PH4]"),
        ("Na Cl", [], {0: 1, 1: -1}, {}, "[Cl-].[Na+]"),
        (
            "Cl O O O O",
            [(0, 1, 2), (0, 2, 2), (0, 3, 2), (0, 4, 1)],
            {4: -1},
            {},
            "[O-][Cl+3]([O-])([O-])[O-]",
        ),
        ("B", [], {0: -1}, {0: 4}, "[BH4-]"),
        ("H", [], {0: 1}, {}, "[H+]"),
    ],
)
def test_unusual_valences_are_stated(
    symbols: str, bonds: list[Any], charges: dict[int, int], hydrogens: dict[int, int], smiles: str
) -> None:
    chem = pytest.importorskip("rdkit.Chem")
    elements, where, graph = molecule(symbols, bonds, charges, hydrogens)
    assert chem.MolToSmiles(sanitised("m", elements, where, graph)) == chem.CanonSmiles(smiles)


@pytest.mark.parametrize(("atoms", "far"), [(1200, 0.0), (4, 20_000.0)])
def test_large_molecules_are_written_as_v3000(tmp_path: Path, atoms: int, far: float) -> None:
    where = np.arange(3.0 * atoms).reshape(-1, 3).round(4) + far
    chain = [(atom, atom + 1, 1) for atom in range(atoms - 1)]
    symbols, where, graph = molecule(" ".join(["C"] * atoms), chain, {2: 1}, {}, where)
    assert "V3000" in mol_block("m", symbols, where, graph)
    path = tmp_path / "large.sdf"
    with open_writer(path) as writer:
        writer.add(item_of("m", symbols, where), graph)
        writer.add(item_of("m", symbols, where), graph)
    read, _ = read_items([path], ReadOptions(node_types="charge"))
    assert np.allclose(read.rows()["pos"], where, atol=1e-3)
    assert read.graph.edges_once().tolist() == graph.edges_once().tolist()
    assert read.graph.node_type_names[read.graph.node_type[2]] == "+1"
    chem = pytest.importorskip("rdkit.Chem")
    assert (
        chem.MolFromMolBlock(mol_block("m", symbols, where, graph), sanitize=False).GetNumBonds() == atoms - 1
    )


def test_smiles_are_written_with_names_and_confidence(tmp_path: Path) -> None:
    pytest.importorskip("rdkit.Chem")
    path = tmp_path / "two.smi"
    with open_writer(path) as writer:
        writer.add(item_of("a b", ACETATE[0], ACETATE[1]), ACETATE[2])
        writer.add(item_of("amine", METHYLAMMONIUM[0], METHYLAMMONIUM[1]), METHYLAMMONIUM[2])
    assert path.read_text() == "CC(=O)[O-]\ta b\t0.7500\nC[NH3+]\tamine\t0.7500\n"


def test_what_is_no_molecule_is_refused(tmp_path: Path) -> None:
    points = Item("p.csv", Path("p.csv"), make_graph([[0.0, 0.0, 0.0]]), labelled=False, ids=None)
    with pytest.raises(GLNError, match="names no elements"), open_writer(tmp_path / "p.sdf") as writer:
        writer.add(points, ACETATE[2])
    plain = make_graph(ACETATE[1], None, [[0, 1]])
    with pytest.raises(GLNError, match="no bonds with orders"), open_writer(tmp_path / "p.sdf") as writer:
        writer.add(item_of("m", ACETATE[0], ACETATE[1]), plain)
    assert not (tmp_path / "p.sdf").exists()


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ("M  V30 1 C 0 0\n", "expected the number of an atom"),
        ("M  V30 1 C 0 0 0 0\nM  V30 END ATOM\nM  V30 BEGIN BOND\nM  V30 1 1 1 7\n", "does not hold"),
        ("M  V30 1 Xx 0 0 0 0\n", "not a chemical element"),
        ("", "holds no atoms"),
    ],
)
def test_a_broken_v3000_record_names_its_row(tmp_path: Path, bad: str, words: str) -> None:
    path = tmp_path / "bad.sdf"
    path.write_text(
        f"m\n\n\n  0  0  0     0  0            999 V3000\nM  V30 BEGIN CTAB\nM  V30 BEGIN ATOM\n{bad}"
    )
    with pytest.raises(GLNError, match=words):
        list(read_items([path]))
