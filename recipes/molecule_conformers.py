"""Make conformers with their labels for so many minutes, on many cores, and keep what is there in the end.

    python recipes/molecule_conformers.py molecules.json.xz OUTDIR --minutes 8 --processes 12 --held-out 600
    python recipes/molecule_conformers.py molecules.json.xz OUTDIR --list recipes/molecules-test.csv.xz

Needs few parts of rdkit. The files of ``OUTDIR`` hold what ``recipes/molecule_labels.py`` stores of every conformer:
``conformers-SEED-….npz.xz`` to learn from and ``held-out-SEED.npz.xz``, which has other scaffolds. With ``--list``,
``tests-….npz.xz`` are conformers of the molecules in the second column of a table, each by ETKDG and MMFF.
"""

from __future__ import annotations

import argparse
import json
import lzma
import multiprocessing
import os
import time
from collections.abc import Iterable, Iterator
from itertools import filterfalse, islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from rdkit import rdBase
from rdkit.Chem import rdchem, rdDistGeom, rdForceFieldHelpers, rdmolfiles, rdmolops

from recipes.molecule_labels import PART, UNIT, is_held_out, stored, write
from recipes.molecule_smiles import molecules

HOW = ("ETKDG", "MMFF", "UFF", "few steps of MMFF")
SHARES = (0.07, 0.81, 0.04, 0.08)
PLAIN = 0.6  # share of those relaxed by MMFF that start without knowledge of torsions, in a third of the time
LONGEST = 3  # seconds for one embedding
MOST_ATOMS = 250
FILES = 3
START = time.time()


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


def held_out_first(words: Iterator[str], count: int) -> Iterator[str]:
    """So many molecules that are held out, then none of these."""

    def held(smiles: str) -> bool:
        return is_held_out(rdmolfiles.MolFromSmiles(smiles))

    yield from islice(filter(held, words), count)
    yield from filterfalse(held, words)


def work(share: int, source: Iterable[str], test: bool, until: float, folder: Path) -> None:
    """One process: molecules until the time is over; what is made is kept now and then."""
    rdBase.DisableLog("rdApp.*")
    made: list[dict[str, np.ndarray]] = []
    part, held = 0, False  # of what is made

    def keep_made() -> None:
        nonlocal made, part
        if made:
            keep(made, folder / f"{'held-out' if held else 'part'}-{share:03}-{part:04}.npz")
            made, part = [], part + 1

    for number, smiles in enumerate(source):
        if time.time() > until:
            break
        try:
            found = conformer(smiles, 10_000 * share + number, test)
        except (RuntimeError, ValueError):
            continue
        if found is None:
            continue
        if len(made) == PART or (bool(found["held_out"][0]) and not test) != held:
            keep_made()
        held = bool(found["held_out"][0]) and not test
        made.append(found)
    keep_made()


def keep(made: list[dict[str, np.ndarray]], path: Path) -> None:
    """Write a few conformers; the file is there whole or not at all."""
    temporary = path.with_suffix(".tmp")
    with temporary.open("wb") as file:
        np.savez(file, **{name: np.concatenate([each[name] for each in made]) for name in made[0]})
    os.replace(temporary, path)


def gather(parts: Path, out: Path, seed: int, test: bool) -> int:
    """Join all parts into a few packed files."""
    made, name = sorted(parts.glob("part-*.npz")), "tests" if test else f"conformers-{seed}"
    some = {out / f"{name}-{number}.npz.xz": made[number::FILES] for number in range(FILES)}
    some[out / f"held-out-{seed}.npz.xz"] = sorted(parts.glob("held-out-*.npz"))
    joined = [([dict(np.load(path)) for path in paths], target) for target, paths in some.items() if paths]
    if joined:
        with multiprocessing.get_context("fork").Pool(len(joined)) as pool:
            pool.starmap(write, joined)
    return sum(len(part["atoms"]) for several, _ in joined for part in several)


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
    parser.add_argument(
        "--held-out", type=int, default=0, help="begin with so many, of scaffolds of their own"
    )
    parser.add_argument(
        "--parts", action="store_true", help="leave the parts in OUTDIR, where others read them"
    )
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="gln-") as place:
        make(given, given.out if given.parts else Path(place))
        count = 0 if given.parts else gather(Path(place), given.out, given.seed, bool(given.list))
    print(f"{count or 'parts of'} conformers in {time.time() - START:.0f} seconds", flush=True)


def make(given: argparse.Namespace, parts: Path) -> None:
    """Start all processes, and end them when the time is over."""
    with lzma.open(given.list or given.source, "rt") as file:
        found = [line.strip().split(",")[1] for line in file] if given.list else json.load(file)
    # Two fifths of a minute are for the last molecules and for packing.
    until = START + 60 * given.minutes - min(25, 12 * given.minutes)
    started = []
    for share in range(given.processes):
        if given.list:
            source = iter(found[share :: given.processes])
        else:
            drawn = molecules(
                1000 * given.seed + share, found["moses"], found["more"], frozenset(found["taken"])
            )
            source = held_out_first(drawn, -(-given.held_out // given.processes))
        arguments = (100 * given.seed + share, source, bool(given.list), until, parts)
        started.append(multiprocessing.get_context("fork").Process(target=work, args=arguments))
    for process in started:
        process.start()
    for process in started:
        process.join(max(0.1, until + 8 - time.time()))
    for process in started:
        if process.is_alive():
            process.kill()
            process.join()


if __name__ == "__main__":
    main()
