"""Draw molecules and make conformers for so many minutes, in several processes, and keep what is there in the end.

    python recipes/molecule_conformers.py molecules.json.xz OUTDIR --minutes 8 --processes 12 [--seed 0] [--list FILE]

Needs few parts of rdkit. The files of ``OUTDIR`` hold what ``recipes/molecule_labels.py`` stores of every conformer.
With ``--list``, the conformers are of the molecules in the second column of a table instead, each by ETKDG and MMFF.
"""

from __future__ import annotations

import argparse
import json
import lzma
import multiprocessing
import os
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from rdkit import rdBase
from rdkit.Chem import rdchem, rdDistGeom, rdForceFieldHelpers, rdmolfiles, rdmolops

from recipes.molecule_labels import UNIT, stored, write
from recipes.molecule_smiles import molecules

HOW = ("ETKDG", "MMFF", "UFF", "few steps of MMFF")
SHARES = (0.07, 0.81, 0.04, 0.08)
PLAIN = 0.6  # share of those relaxed by MMFF that start without knowledge of torsions, in a third of the time
LONGEST = 3  # seconds for one embedding
MOST_ATOMS = 250
BATCH = 400  # conformers kept at once
FILES = 3


def conformer(smiles: str, seed: int, test: bool) -> dict[str, np.ndarray] | None:
    """A conformer with its labels, as it is stored."""
    bare = rdmolfiles.MolFromSmiles(smiles)
    if bare is None:
        return None
    mol = rdmolops.AddHs(bare)
    if mol.GetNumAtoms() > MOST_ATOMS:
        return None
    rng = np.random.default_rng([7, seed])
    how = HOW.index("MMFF") if test else int(rng.choice(len(HOW), p=SHARES))
    plain = HOW[how] == "MMFF" and not test and rng.random() < PLAIN
    embedding = rdDistGeom.EmbedParameters() if plain else rdDistGeom.ETKDGv3()
    embedding.randomSeed, embedding.timeout = seed + 1, 15 if test else LONGEST
    embedding.maxIterations = 20 if test else 8
    if rdDistGeom.EmbedMolecule(mol, embedding) != 0:
        embedding.useRandomCoords = True
        if rdDistGeom.EmbedMolecule(mol, embedding) != 0:
            return None
    if how and mol.GetNumAtoms() > 1:
        how = _relaxed(mol, how, 500 if test else 200)
    if how < 0:
        return None
    places = mol.GetConformer().GetPositions()
    places = np.round((places - places.mean(0)) / UNIT).astype(np.int32)
    return stored(smiles, bare, how, places, test)


def _relaxed(mol: rdchem.Mol, how: int, most: int) -> int:
    """Relax the conformer, and say how it was done: MMFF does not know all elements."""
    if HOW[how] == "UFF" or not rdForceFieldHelpers.MMFFHasAllMoleculeParams(mol):
        if not rdForceFieldHelpers.UFFHasAllMoleculeParams(mol):
            return 0
        return 2 if rdForceFieldHelpers.UFFOptimizeMolecule(mol, maxIters=300) >= 0 else -1
    steps = most if HOW[how] == "MMFF" else 8
    return how if rdForceFieldHelpers.MMFFOptimizeMolecule(mol, maxIters=steps) >= 0 else -1


def work(share: int, source: Iterable[str], test: bool, until: float, folder: Path) -> None:
    """One process: molecules until the time is over; what is made is kept now and then."""
    rdBase.DisableLog("rdApp.*")
    made: list[dict[str, np.ndarray]] = []
    part = 0
    for number, smiles in enumerate(source):
        if time.time() > until:
            break
        try:
            found = conformer(smiles, 10_000 * share + number, test)
        except (RuntimeError, ValueError):
            found = None
        if found is not None:
            made.append(found)
        if len(made) == BATCH:
            keep(made, folder / f"part-{share:03}-{part:04}.npz")
            made, part = [], part + 1
    if made:
        keep(made, folder / f"part-{share:03}-{part:04}.npz")


def keep(made: list[dict[str, np.ndarray]], path: Path) -> None:
    """Write a few conformers; the file is there whole or not at all."""
    temporary = path.with_suffix(".tmp")
    with temporary.open("wb") as file:
        np.savez(file, **{name: np.concatenate([each[name] for each in made]) for name in made[0]})
    os.replace(temporary, path)


def gather(folder: Path, out: Path, name: str) -> int:
    """Join all parts into a few packed files."""
    parts = [dict(np.load(path)) for path in sorted(folder.glob("part-*.npz"))]
    joined = [(parts[number::FILES], out / f"{name}-{number}.npz.xz") for number in range(FILES)]
    joined = [(some, path) for some, path in joined if some]
    if joined:
        with multiprocessing.Pool(len(joined)) as pool:
            pool.starmap(write, joined)
    return sum(len(part["atoms"]) for part in parts)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--list", type=Path)
    given = parser.parse_args()
    start = time.time()
    with lzma.open(given.list or given.source, "rt") as file:
        parts = [line.strip().split(",")[1] for line in file] if given.list else json.load(file)
    given.out.mkdir(parents=True, exist_ok=True)
    folder = given.out / f"parts-{os.getpid()}"
    folder.mkdir()
    # Two fifths of a minute are for the last molecules and for packing.
    until = start + 60 * given.minutes - min(25, 12 * given.minutes)
    started = []
    for share in range(given.processes):
        if given.list:
            source = parts[share :: given.processes]
        else:
            taken = frozenset(parts["taken"])
            source = molecules(1000 * given.seed + share, parts["moses"], parts["more"], taken)
        number = 100 * given.seed + share
        started.append(
            multiprocessing.Process(target=work, args=(number, source, bool(given.list), until, folder))
        )
    for process in started:
        process.start()
    for process in started:
        process.join(max(0.1, until + 8 - time.time()))
    for process in started:
        if process.is_alive():
            process.kill()
            process.join()
    count = gather(folder, given.out, "tests" if given.list else f"conformers-{given.seed}")
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    print(f"{count} conformers in {time.time() - start:.0f} seconds", flush=True)


if __name__ == "__main__":
    main()
