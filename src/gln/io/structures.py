"""Ligands of PDB and mmCIF files (``gln[molecules]``, which brings gemmi).

A file with a protein or a nucleic acid gives its ligands: everything that is neither polymer nor water, residues that
are bonded to each other as one molecule. Of any other file, all atoms of a model are one molecule. Of alternative
locations the first is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from gln.errors import GLNError, needed
from gln.graphs.convert import components
from gln.io.items import Item, Skipped, Source, decoding, load
from gln.io.molecules import Molecule, element, item_of
from gln.later import spatial

if TYPE_CHECKING:
    from gemmi import Residue, Structure

JOINED = 1.9  # ångström: residues with heavy atoms so near are one molecule


def read_structure(source: Source) -> Iterator[Item | Skipped]:
    """Read the molecules of a ``.pdb``, ``.ent``, ``.cif`` or ``.mmcif`` file."""
    gemmi = needed("gemmi", "PDB and mmCIF files", "molecules")
    text = load(source.path)
    pdb = source.path.suffix.lower() in (".pdb", ".ent")
    with decoding("PDB file" if pdb else "mmCIF file"):
        if pdb:
            structure = gemmi.read_pdb_string(text)
        else:
            structure = gemmi.make_structure_from_block(gemmi.cif.read_string(text).sole_block())
        structure.setup_entities()
        structure.remove_alternative_conformations()
        structure.remove_waters()
        found = list(_molecules(structure))  # a name that is no text is decoded here
    if not found and _has_polymer(structure):
        raise GLNError(
            "it has a protein or a nucleic acid, but no ligand to read; give a molecule in a file of its own, as .xyz "
            "or .sdf."
        )
    for name, residues in found:
        part = name if len(found) > 1 else None
        yield source.attempt(part, partial(_item, source, residues, part, name))


def _molecules(structure: Structure) -> Iterator[tuple[str, list[Residue]]]:
    """The residues of every molecule, with a name."""
    polymers, several = _has_polymer(structure), len(structure) > 1
    for number, model in enumerate(structure, start=1):
        before = f"{number}/" if several else ""
        if not polymers:
            residues = [residue for chain in model for residue in chain if len(residue)]
            if residues:
                yield before + (residues[0].name if len(residues) == 1 else "all"), residues
            continue
        named = [
            (f"{before}{chain.name}/{residue.name}{residue.seqid}", residue)
            for chain in model
            for residue in chain.get_ligands()
            if len(residue)
        ]
        for group in _joined([residue for _, residue in named]):
            yield named[group[0]][0], [named[place][1] for place in group]


def _has_polymer(structure: Structure) -> bool:
    return any(len(chain.get_polymer()) for model in structure for chain in model)


def _joined(residues: list[Residue]) -> list[list[int]]:
    """Which residues belong to one molecule, by their distances."""
    owner, places = [], []
    for number, residue in enumerate(residues):
        heavy = [atom.pos.tolist() for atom in residue if not atom.is_hydrogen()]
        owner += [number] * len(heavy)
        places += heavy
    near = spatial.cKDTree(np.array(places)).query_pairs(JOINED, output_type="ndarray") if places else []
    group = components(np.array(owner, dtype=int)[near].reshape(-1, 2), len(residues))
    return [np.flatnonzero(group == number).tolist() for number in range(group.max(initial=-1) + 1)]


def _item(source: Source, residues: list[Residue], part: str | None, title: str) -> Item:
    atoms: list[Any] = [atom for residue in residues for atom in residue]
    symbols = [element(atom.element.name, f"atom {atom.serial}") for atom in atoms]
    where = [atom.pos.tolist() for atom in atoms]
    return item_of(source, Molecule(where, symbols, title), part)
