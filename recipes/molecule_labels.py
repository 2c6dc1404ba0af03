"""What the model of molecules is to say of an rdkit molecule: types of bonds, charges and hydrogens; kept in files.

Resonance forms that nobody can tell apart share one labelling: both oxygens of a carboxylate are ``SHARED``, and both
its bonds delocalised. Otherwise every such group would be a toss-up, and no probability could be trusted.
"""

from __future__ import annotations

import io
import lzma
import zlib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from rdkit.Chem import rdchem

ELEMENTS = ("H", "B", "C", "N", "O", "F", "Si", "P", "S", "Cl", "Se", "Br", "I")
SINGLE, DOUBLE, TRIPLE, DELOCALISED = range(4)  # the last: aromatic, or of several orders by resonance
NEUTRAL, POSITIVE, NEGATIVE, SHARED = range(4)  # the last: charged in some resonance forms
MOST_HYDROGENS = 4  # attached, but not among the atoms
NODE_TYPES = 4 * (MOST_HYDROGENS + 1)  # (MOST_HYDROGENS + 1) * charge + hydrogens
UNIT = 0.002  # ångström, of stored positions
HELD_OUT = 60  # one of so many scaffolds is for validation
PART = 64  # conformers in a part of a file
MOST_FORMS = 64  # resonance structures that are looked at

ORDERS = {1: SINGLE, 2: DOUBLE, 3: TRIPLE, 12: DELOCALISED}  # by rdkit's number of a type of bond
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
    ) and all(int(bond.GetBondType()) in ORDERS for bond in mol.GetBonds())


def labels(mol: rdchem.Mol) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bonds ``[m, 2]``, their types ``[m]``, and the types of atoms ``[n]``, of a sanitised molecule.

    Hydrogens that are not atoms of ``mol`` are counted; for a molecule with all of them, their number is 0.
    """
    atoms, found = list(mol.GetAtoms()), list(mol.GetBonds())
    bonds = np.array([(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in found]).reshape(-1, 2)
    types = np.array([ORDERS[int(bond.GetBondType())] for bond in found], dtype=np.int64)
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


def scaffold(mol: rdchem.Mol) -> str:
    """The rings of a molecule and what links them, as SMILES; of one without rings, the molecule."""
    from rdkit.Chem import MolFragmentToSmiles

    left = {atom.GetIdx(): atom.GetDegree() for atom in mol.GetAtoms()}
    ends = [number for number, degree in left.items() if degree <= 1]
    while ends:
        number = ends.pop()
        del left[number]
        for atom in mol.GetAtomWithIdx(number).GetNeighbors():
            if (near := atom.GetIdx()) in left:
                left[near] -= 1
                if left[near] == 1:
                    ends.append(near)
    return MolFragmentToSmiles(mol, sorted(left or range(mol.GetNumAtoms())))


def is_held_out(mol: rdchem.Mol) -> bool:
    """Whether the molecule has a scaffold of which none is learned."""
    return zlib.crc32(scaffold(mol).encode()) % HELD_OUT == 0


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
    from rdkit.Chem.rdchem import ResonanceMolSupplier  # training needs no rdkit

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
        if not bond.GetIsAromatic() and len({form.GetBondWithIdx(number).GetBondType() for form in forms}) > 1
    }
    return several, differ


def stored(smiles: str, bare: rdchem.Mol, how: int, places: np.ndarray, test: bool) -> dict[str, np.ndarray]:
    """A conformer ``[n, 3]`` (in ``UNIT``) of ``bare`` and its hydrogens, which come last, as arrays that pack well.

    A position is counted from the first neighbour among the atoms before it, ``back`` so many places, or from the
    origin.
    """
    bonds, types, kinds = labels(bare)
    charges, hydrogens = np.divmod(kinds, MOST_HYDROGENS + 1)
    carriers = np.repeat(np.arange(len(hydrogens)), hydrogens)
    first = len(hydrogens)
    bonds = np.concatenate([bonds, np.stack([carriers, first + np.arange(len(carriers))], 1)])
    types = np.concatenate([types, np.full(len(carriers), SINGLE)])
    charges = np.concatenate([charges, np.full(len(carriers), NEUTRAL)])
    element = [ELEMENTS.index(atom.GetSymbol()) for atom in bare.GetAtoms()] + [0] * len(carriers)
    parent = np.arange(len(places))
    for one, two in np.sort(bonds, axis=1)[::-1]:
        parent[two] = min(one, parent[two])
    held = test or is_held_out(bare)
    root = (parent == np.arange(len(parent)))[:, None]
    return {
        "smiles": np.frombuffer((smiles + "\n").encode(), np.uint8),
        "key": np.array([zlib.crc32(smiles.encode())], np.uint32),
        "how": np.array([how], np.uint8),
        "held_out": np.array([held], np.uint8),
        "atoms": np.array([len(places)], np.uint8),
        "bonds": np.array([len(bonds)], np.uint16),
        "element": np.array(element, np.uint8),
        "charge": charges.astype(np.uint8),
        "ends": bonds.astype(np.uint8),
        "order": types.astype(np.uint8),
        "back": (np.arange(len(parent)) - parent).astype(np.uint8),
        "delta": np.where(root, places, places - places[parent]).astype(np.int16),
    }


def write(parts: list[dict[str, np.ndarray]], path: Path) -> None:
    """Write many of them, one after another; low bytes apart from high ones, which pack better."""
    arrays: dict[str, Any] = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    delta = arrays.pop("delta").T
    arrays |= {"low": (delta & 0xFF).astype(np.uint8), "high": (delta >> 8).astype(np.int8)}
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    path.write_bytes(lzma.compress(buffer.getvalue(), preset=6))


def read(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a file that :func:`write` wrote, or of one of its parts, with ``pos`` ``[n, 3]`` in ångström."""
    content = path.read_bytes()
    with np.load(io.BytesIO(lzma.decompress(content) if path.suffix == ".xz" else content)) as file:
        arrays = dict(file)
    if "delta" in arrays:
        pos = arrays.pop("delta").astype(np.int32)  # from the parent
    else:
        pos = (arrays.pop("high").astype(np.int32) * 256 + arrays.pop("low")).T
    back = arrays.pop("back").astype(np.int64)
    parent, known = np.arange(len(back)) - back, back == 0
    while not known.all():
        ready = ~known & known[parent]
        pos[ready] += pos[parent[ready]]
        known |= ready
    words = np.array(arrays.pop("smiles").tobytes().decode().split())
    return arrays | {"smiles": words, "pos": (pos * UNIT).astype(np.float32)}
