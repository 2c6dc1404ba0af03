"""Writing molecules: SDF with bonds, charges and how sure they are, and SMILES.

Bonds are written in one resonance form, so every program reads them alike; rdkit finds the aromatic rings again.
"""

from __future__ import annotations

from textwrap import fill
from typing import Any

import numpy as np

from gln.decoding.valences import NUMBER, valences
from gln.errors import GLNError, needed
from gln.graphs.record import Graph
from gln.io.items import Item

MOLECULES = (".sdf", ".smi")
V2000 = 999  # the most atoms and bonds
LONGEST = 199  # letters in a line
FARTHEST = 9_999  # ångström: farther positions do not fit its columns
RDKIT = ("rdkit.Chem", "Molecules that are not written as .sdf", "molecules")
Atom = tuple[str, list[float], int, int | None]  # the element, where it is, its charge and any stated valence


def mol_block(title: str, symbols: list[str], where: np.ndarray, molecule: Graph) -> str:
    """A molecule with ``edge_order``, ``charge`` and ``hydrogens`` as a molfile: V2000, or V3000 if it is too large.

    It lies at ``where [n, 3]``, in ångström.
    """
    once, total = molecule.listed_once(), [0] * len(symbols)
    ends, orders = (molecule.edge_index[:, once].T + 1).tolist(), molecule.edge_order[once].tolist()
    bonds = [(a, b, order) for (a, b), order in zip(ends, orders, strict=True)]
    for a, b, order in bonds:
        total[a - 1] += order
        total[b - 1] += order
    charges, hydrogens = molecule.charge.tolist(), molecule.hydrogens.tolist()
    stated = []  # what a reader would not guess of the hydrogens that are not listed
    for symbol, charge, all_bonds, more in zip(symbols, charges, total, hydrogens, strict=True):
        rule = valences(NUMBER[symbol], charge) or ()
        guessed = next((each - all_bonds for each in rule if each >= all_bonds), 0)
        stated.append(None if guessed == more else all_bonds + more)
    atoms = list(zip(symbols, where.tolist(), charges, stated, strict=True))
    large = max(len(atoms), len(bonds)) > V2000 or np.abs(where).max(initial=0) > FARTHEST
    lines = _v3000(atoms, bonds) if large else _v2000(atoms, bonds)
    return "\n".join([title, "     gln            3D", "", *lines, "M  END\n"])


def _v2000(atoms: list[Atom], bonds: list[tuple[int, int, int]]) -> list[str]:
    lines = [f"{len(atoms):3d}{len(bonds):3d}  0  0  0  0  0  0  0  0999 V2000"]
    for symbol, (x, y, z), _, valence in atoms:
        code = 0 if valence is None else valence or 15
        lines.append(f"{x:10.4f}{y:10.4f}{z:10.4f} {symbol:<3} 0  0  0  0  0{code:3d}  0  0  0  0  0  0")
    lines += [f"{a:3d}{b:3d}{order:3d}  0" for a, b, order in bonds]
    charged = [f" {number:3d} {atom[2]:3d}" for number, atom in enumerate(atoms, start=1) if atom[2]]
    for start in range(0, len(charged), 8):
        some = charged[start : start + 8]
        lines.append(f"M  CHG{len(some):3d}{''.join(some)}")
    return lines


def _v3000(atoms: list[Atom], bonds: list[tuple[int, int, int]]) -> list[str]:
    lines = ["BEGIN CTAB", f"COUNTS {len(atoms)} {len(bonds)} 0 0 0", "BEGIN ATOM"]
    for number, (symbol, (x, y, z), charge, valence) in enumerate(atoms, start=1):
        more = f" CHG={charge}" if charge else ""
        more += "" if valence is None else f" VAL={valence or -1}"
        lines.append(f"{number} {symbol} {x:.4f} {y:.4f} {z:.4f} 0{more}")
    lines += ["END ATOM", "BEGIN BOND"]
    lines += [f"{number} {order} {a} {b}" for number, (a, b, order) in enumerate(bonds, start=1)]
    lines += ["END BOND", "END CTAB"]
    return ["  0  0  0     0  0            999 V3000", *(f"M  V30 {line}" for line in lines)]


def sanitised(title: str, symbols: list[str], where: np.ndarray, molecule: Graph) -> Any:
    """The same as a sanitised rdkit ``Mol``."""
    chem, block = needed(*RDKIT), mol_block(title, symbols, where, molecule)
    found = chem.MolFromMolBlock(block, removeHs=False)
    if found is None:
        raise GLNError(f"rdkit refuses the molecule {title}; it says why above.")
    return found


def molecule_of(item: Item, answer: Graph) -> tuple[str, list[str], np.ndarray, Graph]:
    """What :func:`mol_block` needs of a prediction."""
    if item.symbols is None:
        raise GLNError(f"{item.name} names no elements, so it is no molecule; write a .csv.")
    if answer.get("edge_order") is None:
        raise GLNError(f"{item.name} has edges but no bonds with orders; write a .csv.")
    title = " ".join((item.title or item.label).split())[:80]
    return title, list(item.symbols), item.rows()["pos"], answer


def to_sdf(item: Item, answer: Graph) -> bytes:
    """A record with fields that say how sure it is."""
    block = mol_block(*molecule_of(item, answer))
    bonds = " ".join(f"{value:.4f}" for value in answer.edge_prob[answer.listed_once()].tolist())
    fields = {
        "source": item.label,
        "confidence": f"{answer.molecule_prob:.4f}",
        "bond_confidence": fill(bonds, LONGEST),
        "note": answer.get("note"),
    }
    data = "".join(f">  <{name}>\n{text}\n\n" for name, text in fields.items() if text)
    return f"{block}{data}$$$$\n".encode("utf-8", "backslashreplace")


def to_smiles(item: Item, answer: Graph) -> bytes:
    """A line with its canonical SMILES, its name and how sure it is."""
    chem = needed(*RDKIT)
    text = chem.MolToSmiles(chem.RemoveHs(sanitised(*molecule_of(item, answer))))
    line = f"{text}\t{' '.join(item.label.split())}\t{answer.molecule_prob:.4f}\n"
    return line.encode("utf-8", "backslashreplace")
