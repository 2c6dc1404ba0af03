"""What the model of molecules is to say of an rdkit molecule: types of bonds, and charges and hydrogens of atoms.

Resonance forms that nobody can tell apart share one labelling: both oxygens of a carboxylate are ``SHARED``, and both
its bonds delocalised. Otherwise every such group would be a toss-up, and no probability could be trusted.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from rdkit.Chem import rdchem

ELEMENTS = ("H", "B", "C", "N", "O", "F", "Si", "P", "S", "Cl", "Se", "Br", "I")
SINGLE, DOUBLE, TRIPLE, DELOCALISED = range(4)  # the last: aromatic, or of several orders by resonance
NEUTRAL, POSITIVE, NEGATIVE, SHARED = range(4)  # the last: charged in some resonance forms
MOST_HYDROGENS = 4  # attached, but not among the atoms
NODE_TYPES = 4 * (MOST_HYDROGENS + 1)  # (MOST_HYDROGENS + 1) * charge + hydrogens
MOST_FORMS = 64  # resonance structures that are looked at

ORDERS = {
    rdchem.BondType.SINGLE: SINGLE,
    rdchem.BondType.DOUBLE: DOUBLE,
    rdchem.BondType.TRIPLE: TRIPLE,
    rdchem.BondType.AROMATIC: DELOCALISED,
}
CHARGES = {0: NEUTRAL, 1: POSITIVE, -1: NEGATIVE}
CHALCOGENS = (8, 16, 34)


def fits(mol: rdchem.Mol) -> bool:
    """Whether the labels can describe the molecule: no radicals, isotopes, other elements or higher charges."""
    return all(
        atom.GetSymbol() in ELEMENTS
        and abs(atom.GetFormalCharge()) <= 1
        and not atom.GetNumRadicalElectrons()
        and not atom.GetIsotope()
        and atom.GetTotalNumHs() <= MOST_HYDROGENS
        for atom in mol.GetAtoms()
    ) and all(bond.GetBondType() in ORDERS for bond in mol.GetBonds())


def labels(mol: rdchem.Mol) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bonds ``[m, 2]``, their types ``[m]``, and the types of atoms ``[n]``, of a sanitised molecule.

    Hydrogens that are not atoms of ``mol`` are counted; for a molecule with all of them, their number is 0.
    """
    atoms, found = list(mol.GetAtoms()), list(mol.GetBonds())
    bonds = np.array([(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in found]).reshape(-1, 2)
    types = np.array([ORDERS[bond.GetBondType()] for bond in found], dtype=np.int64)
    charges = np.array([CHARGES[atom.GetFormalCharge()] for atom in atoms], dtype=np.int64)
    if (charges != NEUTRAL).any():
        several, differ = _by_resonance(mol)
        charges[sorted(several)] = SHARED
        types[sorted(differ)] = DELOCALISED
        for centre in atoms:
            ends = _equal_ends(centre)
            charges[[atom.GetIdx() for atom in ends]] = SHARED
            types[[mol.GetBondBetweenAtoms(centre.GetIdx(), atom.GetIdx()).GetIdx() for atom in ends]] = (
                DELOCALISED
            )
    hydrogens = np.array([atom.GetTotalNumHs() for atom in atoms])
    return bonds.astype(np.int64), types, (MOST_HYDROGENS + 1) * charges + hydrogens


def _equal_ends(centre: rdchem.Atom) -> list[rdchem.Atom]:
    """The ends ``=O`` and ``–O⁻`` of an atom that has both, or none."""
    ends = [
        (atom, atom.GetFormalCharge())
        for atom in centre.GetNeighbors()
        if atom.GetAtomicNum() in CHALCOGENS and atom.GetDegree() == 1 and not atom.GetTotalNumHs()
    ]
    return [atom for atom, _ in ends] if len({charge for _, charge in ends}) > 1 else []


def _by_resonance(mol: rdchem.Mol) -> tuple[set[int], set[int]]:
    """Atoms whose charge, and bonds whose order, differ between forms with the same kinds of charged atoms."""
    from rdkit.Chem.rdchem import ResonanceMolSupplier  # what makes conformers runs without it

    def charged(form: rdchem.Mol) -> Counter:
        return Counter(
            (atom.GetAtomicNum(), atom.GetTotalDegree(), atom.GetFormalCharge())
            for atom in form.GetAtoms()
            if atom.GetFormalCharge()
        )

    own = charged(mol)
    forms = [form for form in ResonanceMolSupplier(mol, 0, MOST_FORMS) if form is not None]
    forms = [form for form in forms if charged(form) == own]
    several = {
        number
        for number, atom in enumerate(mol.GetAtoms())
        if len({form.GetAtomWithIdx(number).GetFormalCharge() for form in [mol, *forms]}) > 1
    }
    if not several:
        return set(), set()
    # A form that moves no charge has nothing to say of orders: it is another drawing of an aromatic ring.
    differ = {
        number
        for number, bond in enumerate(mol.GetBonds())
        if not bond.GetIsAromatic()
        and len({form.GetBondWithIdx(number).GetBondType() for form in forms}) > 1
    }
    return several, differ
