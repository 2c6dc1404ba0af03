"""Draw molecules and make conformers for so many minutes, in several processes, and keep what is there in the end.

    python recipes/molecule_conformers.py molecules.json.xz OUTDIR --minutes 8 --processes 12 [--seed 0] [--list FILE]

Needs few parts of rdkit. A file of ``OUTDIR`` is an .npz, packed again by xz: for every conformer its SMILES, how it was
made (``HOW``), its number of atoms, and the positions of all its atoms, hydrogens last, in units of ``UNIT``. With
``--list``, the conformers are of the molecules in the second column of a table instead, each by ETKDG and MMFF.
"""

from __future__ import annotations

import argparse
import io
import json
import lzma
import multiprocessing
import os
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from rdkit import rdBase  # noqa: F401, the first: it registers what the others return
from rdkit.DataStructs import cDataStructs  # noqa: F401
from rdkit.Geometry import rdGeometry  # noqa: F401
from rdkit.ForceField import rdForceField  # noqa: F401, I001
from rdkit.Chem import rdchem, rdDistGeom, rdForceFieldHelpers, rdmolfiles, rdmolops

from recipes.molecule_smiles import molecules

UNIT = 0.002  # ångström
HOW = ("ETKDG", "MMFF", "UFF", "few steps of MMFF")
SHARES = (0.12, 0.70, 0.08, 0.10)
LONGEST = 15  # seconds for one embedding
MOST_ATOMS = 260
BATCH = 400  # conformers kept at once
FILES = 3


def conformer(smiles: str, seed: int, how: int | None = None) -> tuple[int, np.ndarray] | None:
    """How the conformer was made, and its positions ``[n, 3]`` in whole units."""
    mol = rdmolfiles.MolFromSmiles(smiles)
    if mol is None:
        return None
    mol = rdmolops.AddHs(mol)
    if mol.GetNumAtoms() > MOST_ATOMS:
        return None
    if how is None:
        how = int(np.random.default_rng([7, seed]).choice(len(HOW), p=SHARES))
    embedding = rdDistGeom.ETKDGv3()
    embedding.randomSeed, embedding.timeout, embedding.maxIterations = seed + 1, LONGEST, 20
    if rdDistGeom.EmbedMolecule(mol, embedding) != 0:
        embedding.useRandomCoords = True
        if rdDistGeom.EmbedMolecule(mol, embedding) != 0:
            return None
    if how and mol.GetNumAtoms() > 1:
        how = _relaxed(mol, how)
    if how < 0:
        return None
    places = mol.GetConformer().GetPositions()
    return how, np.round((places - places.mean(0)) / UNIT).clip(-(2**15), 2**15 - 1).astype(np.int16)


def _relaxed(mol: rdchem.Mol, how: int) -> int:
    """Relax the conformer, and say how it was done: MMFF does not know all elements."""
    if HOW[how] == "UFF" or not rdForceFieldHelpers.MMFFHasAllMoleculeParams(mol):
        if not rdForceFieldHelpers.UFFHasAllMoleculeParams(mol):
            return 0
        return 2 if rdForceFieldHelpers.UFFOptimizeMolecule(mol, maxIters=300) >= 0 else -1
    steps = 500 if HOW[how] == "MMFF" else 8
    return how if rdForceFieldHelpers.MMFFOptimizeMolecule(mol, maxIters=steps) >= 0 else -1


Made = tuple[str, int, np.ndarray]  # SMILES, how, positions in whole units


def work(share: int, source: Iterable[str], how: int | None, until: float, folder: Path) -> None:
    """One process: molecules until the time is over; what is made is kept now and then."""
    rdBase.DisableLog("rdApp.*")
    made: list[Made] = []
    part = 0
    for number, smiles in enumerate(source):
        if time.time() > until:
            break
        try:
            found = conformer(smiles, 10_000 * share + number, how)
        except (RuntimeError, ValueError):
            found = None
        if found is not None:
            made.append((smiles, *found))
        if len(made) == BATCH:
            keep(made, folder / f"part-{share:03}-{part:04}.npz")
            made, part = [], part + 1
    if made:
        keep(made, folder / f"part-{share:03}-{part:04}.npz")


def keep(made: list[Made], path: Path) -> None:
    """Write a few conformers; the file is there whole or not at all."""
    arrays = {
        "smiles": np.frombuffer("".join(smiles + "\n" for smiles, _, _ in made).encode(), np.uint8),
        "how": np.array([how for _, how, _ in made], np.uint8),
        "atoms": np.array([len(places) for _, _, places in made], np.uint16),
        "pos": np.concatenate([places for _, _, places in made]),
    }
    temporary = path.with_suffix(".tmp")
    with temporary.open("wb") as file:
        np.savez(file, **arrays)
    os.replace(temporary, path)


def gather(folder: Path, out: Path) -> int:
    """Join all parts into a few packed files."""
    parts = [dict(np.load(path)) for path in sorted(folder.glob("part-*.npz"))]
    if not parts:
        return 0
    joined = [(number, parts[number::FILES], out) for number in range(FILES) if parts[number::FILES]]
    with multiprocessing.Pool(len(joined)) as pool:
        pool.starmap(_pack, joined)
    return sum(len(part["atoms"]) for part in parts)


def _pack(number: int, parts: list[dict[str, np.ndarray]], out: Path) -> None:
    buffer = io.BytesIO()
    names = list(parts[0])
    arrays = {name: np.concatenate([part[name] for part in parts]) for name in names if name != "pos"}
    # One coordinate after another, low bytes apart from high ones: so they pack better.
    pos = np.ascontiguousarray(np.concatenate([part["pos"] for part in parts]).T)  # [3, atoms in all]
    arrays |= {"low": (pos & 0xFF).astype(np.uint8), "high": (pos >> 8).astype(np.int8)}
    np.savez(buffer, **arrays)
    (out / f"conformers-{os.getpid()}-{number}.npz.xz").write_bytes(lzma.compress(buffer.getvalue(), preset=3))


def read(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a packed file, ``pos`` ``[atoms in all, 3]`` in ångström among them."""
    with np.load(io.BytesIO(lzma.decompress(path.read_bytes()))) as file:
        arrays = dict(file)
    high, low = arrays.pop("high").astype(np.int16), arrays.pop("low")
    words = arrays.pop("smiles").tobytes().decode().split()
    return arrays | {"smiles": np.array(words), "pos": (high * 256 + low).T.astype(np.float32) * UNIT}


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
            source, how = parts[share :: given.processes], HOW.index("MMFF")
        else:
            taken = frozenset(parts["taken"])
            source, how = molecules(1000 * given.seed + share, parts["moses"], parts["more"], taken), None
        number = 100 * given.seed + share
        started.append(multiprocessing.Process(target=work, args=(number, source, how, until, folder)))
    for process in started:
        process.start()
    for process in started:
        process.join(max(0.1, until + 8 - time.time()))
    for process in started:
        if process.is_alive():
            process.kill()
            process.join()
    count = gather(folder, given.out)
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    print(f"{count} conformers in {time.time() - start:.0f} seconds", flush=True)


if __name__ == "__main__":
    main()
