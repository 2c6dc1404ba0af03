"""Molecules of rdkit: to graphs and back, and with predicted bonds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from gln.errors import GLNError
from tests.workflows.test_molecules import FORMALDEHYDE, SAME, ByLength

chem = pytest.importorskip("rdkit.Chem")
place = pytest.importorskip("rdkit.Chem.AllChem")


def embedded(smiles: str, hydrogens: bool = True) -> Any:
    found = chem.AddHs(chem.MolFromSmiles(smiles))
    assert place.EmbedMolecule(found, randomSeed=1) == 0
    return found if hydrogens else chem.RemoveHs(found)


@pytest.mark.parametrize("hydrogens", [True, False])
@pytest.mark.parametrize(
    "smiles",
    [
        "CC(=O)[O-]",
        "C[NH3+]",
        "c1ccncc1",
        "O=[N+]([O-])c1ccccc1",
        "N#CC1CC1",
        "[nH]1cccc1",
        "CS(=O)(=O)N",
        "O.Cl",
    ],
)
def test_a_molecule_comes_back_as_it_was(smiles: str, hydrogens: bool) -> None:
    from gln.adapters.rdkit import from_mol, to_mol

    mol = embedded(smiles, hydrogens)
    graph = from_mol(mol)
    back = to_mol(graph)
    assert chem.MolToSmiles(chem.RemoveHs(back)) == chem.MolToSmiles(chem.RemoveHs(mol))
    assert back.GetConformer().GetPositions() == pytest.approx(mol.GetConformer().GetPositions(), abs=1e-4)


@pytest.mark.parametrize("hydrogens", [True, False])
@pytest.mark.parametrize(
    "smiles",
    [
        *[
            "Nc1nc2c(s1)CCCC2",
            "CC(=O)[O-]",
            "NC(N)=[NH2+]",
            "C[n+]1cc[nH]c1",
            "CS(=O)(=O)[O-]",
            "COP(=O)([O-])[O-]",
        ],
        *[
            "CN=[N+]=[N-]",
            "C[n+]1ccccc1",
            "[O-][n+]1ccccc1",
            "CS(C)=O",
            "O=S(=O)(c1cccs1)N1CCCC1",
            "C[Si](C)(C)C#C",
        ],
        *[
            "OB(O)c1ccccc1",
            "C[N+](C)(C)CC(=O)[O-]",
            "c1nnn[n-]1",
            "CC(=O)[CH-]C(C)=O",
            "c1ccc2c(c1)c1ccccc1[nH]2",
        ],
    ],
)
def test_decoding_undoes_the_labels_that_the_model_is_trained_on(smiles: str, hydrogens: bool) -> None:
    from gln.adapters.rdkit import to_mol
    from gln.decoding.valences import ELEMENTS
    from gln.graphs import make_graph
    from recipes.molecule_labels import labels

    mol = embedded(smiles, hydrogens)
    bonds, types, states = labels(mol)
    elements = torch.eye(len(ELEMENTS))[[ELEMENTS.index(atom.GetSymbol()) for atom in mol.GetAtoms()]]
    graph = make_graph(mol.GetConformer().GetPositions(), elements, bonds, edge_type=torch.tensor(types))
    graph.node_type = torch.tensor(states)
    back = to_mol(graph)
    same = [chem.MolToSmiles(chem.RemoveHs(each), isomericSmiles=False) for each in (mol, back)]
    if same[0] != same[1]:  # another drawing of one molecule
        assert len({chem.MolToInchi(each, options="/FixedH /SNon") for each in (mol, back)}) == 1
    assert chem.GetFormalCharge(back) == chem.GetFormalCharge(mol)


def test_bonds_are_predicted_from_elements_and_positions_alone(tmp_path: Path) -> None:
    from gln.adapters.rdkit import molecules

    mol = embedded("C=O")
    bare = chem.RWMol(mol)
    for bond in list(mol.GetBonds()):
        bare.RemoveBond(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx())
    (tmp_path / "a.xyz").write_text(FORMALDEHYDE)
    found = molecules(ByLength(), [bare, tmp_path / "a.xyz"])  # type: ignore[arg-type]
    for each in found:
        assert chem.MolToSmiles(chem.RemoveHs(each)) == "C=O"
        assert 0 < each.GetDoubleProp("confidence") < 1
        assert each.GetBondBetweenAtoms(0, 1).GetDoubleProp("confidence") <= 1


def test_mistakes_are_said_in_one_sentence(tmp_path: Path) -> None:
    from gln.adapters.rdkit import from_mol, molecules, to_mol

    (tmp_path / "a.xyz").write_text(SAME)
    model: Any = ByLength()
    with pytest.raises(GLNError, match="at one place"):
        molecules(model, tmp_path / "a.xyz")
    with pytest.raises(GLNError, match="no conformer"):
        molecules(model, chem.MolFromSmiles("C"))
    with pytest.raises(GLNError, match="expected an rdkit Mol"):
        molecules(model, [7])  # type: ignore[list-item]
    with pytest.raises(GLNError, match="does not know Zn"):
        from_mol(embedded("[Zn+2]"))
    graph = from_mol(embedded("C"))
    del graph.node_type
    with pytest.raises(GLNError, match="says nothing of bonds"):
        to_mol(graph)
