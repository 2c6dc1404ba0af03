"""Molecules from elements and positions: a model against the rules of rdkit and Open Babel, on the same conformers."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.common import peer
from gln.errors import GLNError
from recipes.molecule_labels import ELEMENTS, read

SEED = 0
PATIENCE = 3.0  # seconds for one molecule, after which a rule has failed
SURE = 0.99
WINDOW = 512  # molecules that are asked about together, in batches, of which every core computes one
NEAR, SMALL = 2.5, 60  # ångström between two molecules of one file, and atoms of each


@dataclass
class Case:
    """A conformer: ``collection``, symbols ``[n]``, positions ``[n, 3]``, and the molecule as rdkit's ``Mol``."""

    collection: str
    symbols: list[str]
    pos: np.ndarray
    truth: Any

    @property
    def charge(self) -> int:
        return int(sum(atom.GetFormalCharge() for atom in self.truth.GetAtoms()))

    def xyz(self) -> str:
        rows = (
            f"{symbol} {x:.4f} {y:.4f} {z:.4f}"
            for symbol, (x, y, z) in zip(self.symbols, self.pos, strict=True)
        )
        return "\n".join([str(len(self.symbols)), "", *rows, ""])


@dataclass
class Answer:
    """A molecule, or none, the seconds it took (by the clock, and of all processors), and how sure a method is."""

    mol: Any
    seconds: np.ndarray  # [2]
    sure: float = float("nan")


def run(
    drugs: tuple[Path, ...],
    hard: tuple[Path, ...] = (),
    model: str = "molecules",
    count: int = 1000,
    situations: tuple[str, ...] = ("all atoms", "heavy atoms", "noise .05", "noise .1"),
    rules: bool = True,
    single: bool = True,
) -> dict[str, Any]:
    """Recover molecules, and compare them with those from which the conformers were made.

    Args:
        drugs: conformers that ``recipes/molecule_conformers.py`` made of ``recipes/molecules-test.csv.xz``.
        hard: those of ``recipes/molecules-hard.csv.xz``.
        model: a saved model or the name of a shipped one; ``none`` measures the rules alone.
        count: how many drugs.
        situations: what is known of the atoms.
        rules: measure the rules too.
        single: measure the model on one molecule at a time too.
    """
    from rdkit import rdBase

    rdBase.DisableLog("rdApp.*")
    cases = [*drawn(drugs, count), *hard_cases(hard)]
    methods: dict[str, Callable[[Sequence[Case], bool], list[Answer]]] = {}
    if rules:
        methods |= {
            "rdkit, charge given": lambda some, whole: rdkit_rules(some, whole, given=True),
            "rdkit, charge 0": lambda some, whole: rdkit_rules(some, whole, given=False),
            "Open Babel": babel,
        }
    if model != "none":
        methods["gln, in batches"] = by_model(model, 32)
        if single:
            methods["gln, one at a time"] = by_model(model, 1)
    rows = []
    for situation in situations:
        tried = [changed(case, situation, number) for number, case in enumerate(cases)]
        for name, method in methods.items():
            if situation == "heavy atoms" and name.startswith("rdkit"):
                continue  # these rules need all hydrogens
            answers = method(tried, situation != "heavy atoms")
            groups = dict.fromkeys(case.collection for case in cases)
            for group in groups:
                some = [number for number, case in enumerate(tried) if case.collection == group]
                found = scores([tried[number] for number in some], [answers[number] for number in some])
                rows.append({"situation": situation, "collection": group, "method": name, **found})
                print(
                    situation,
                    group,
                    name,
                    {key: round(float(value), 4) for key, value in found.items()},
                    flush=True,
                )
    settings = {"seed": SEED, "drugs": count, "model": model, "patience": PATIENCE}
    return {"settings": settings, "rows": rows}


def now() -> np.ndarray:
    """The time by the clock, that of this process on all processors, and that of processes that have ended: ``[3]``."""
    used = os.times()
    return np.array([time.perf_counter(), time.process_time(), used.children_user + used.children_system])


def cases_of(paths: Sequence[Path], collection: str) -> Iterator[Case]:
    from rdkit import Chem

    for path in paths:
        arrays = read(path)
        ends = np.cumsum(arrays["atoms"].astype(int))
        for smiles, atoms, end in zip(arrays["smiles"], arrays["atoms"], ends, strict=True):
            rows = slice(end - int(atoms), end)
            truth = Chem.MolFromSmiles(str(smiles))
            Chem.RemoveStereochemistry(truth)
            symbols = [ELEMENTS[number] for number in arrays["element"][rows]]
            yield Case(collection, symbols, arrays["pos"][rows], truth)


def drawn(paths: Sequence[Path], count: int) -> list[Case]:
    """So many drugs; those with an ion, beyond groups such as nitro, apart."""
    cases = list(cases_of(paths, "drugs"))
    chosen = np.random.default_rng(SEED).permutation(len(cases))[:count]
    for number in chosen:
        if any(atom.GetFormalCharge() for atom in cases[number].truth.GetAtoms()):
            cases[number].collection = "drugs with charges"
    return [cases[number] for number in chosen]


def hard_cases(paths: Sequence[Path]) -> list[Case]:
    """The hard collections by name, and pairs of small molecules in one file."""
    from rdkit import Chem

    names: dict[str, str] = {}
    if paths:
        import lzma

        with lzma.open(Path("recipes/molecules-hard.csv.xz"), "rt") as file:
            names = {line.strip().split(",")[1]: line.split(",")[0] for line in file}
    cases = list(cases_of(paths, "hard"))
    for case in cases:
        case.collection = names[Chem.MolToSmiles(case.truth)]
    rng, small = np.random.default_rng(SEED), [case for case in cases if len(case.symbols) <= SMALL]
    pairs = [beside(*pair, rng) for pair in zip(small[::2], small[1::2], strict=False)]
    return [*cases, *pairs]


def beside(one: Case, two: Case, rng: np.random.Generator) -> Case:
    from rdkit import Chem

    way = rng.standard_normal(3)
    way /= np.linalg.norm(way)
    second = two.pos - two.pos.mean(0) + one.pos.mean(0)
    while np.linalg.norm(one.pos[:, None] - second[None], axis=-1).min() < NEAR:
        second = second + 0.25 * way
    return Case(
        "two molecules",
        one.symbols + two.symbols,
        np.concatenate([one.pos, second]),
        Chem.CombineMols(one.truth, two.truth),
    )


def changed(case: Case, situation: str, number: int) -> Case:
    """The conformer as it is known: without hydrogens, or with noise."""
    if situation == "heavy atoms":
        kept = [place for place, symbol in enumerate(case.symbols) if symbol != "H"]
        return Case(case.collection, [case.symbols[place] for place in kept], case.pos[kept], case.truth)
    noise = {"noise .05": 0.05, "noise .1": 0.1}.get(situation, 0.0)
    rng = np.random.default_rng([SEED, number])
    return Case(
        case.collection, case.symbols, case.pos + noise * rng.standard_normal(case.pos.shape), case.truth
    )


def scores(cases: Sequence[Case], answers: Sequence[Answer]) -> dict[str, float]:
    """Shares of molecules, of bonds, and times."""
    rows = np.array(
        [judged(case, answer.mol) for case, answer in zip(cases, answers, strict=True)], dtype=float
    )
    clock, busy = 1e3 * np.mean([answer.seconds for answer in answers], axis=0)
    found = {
        "molecules": len(cases),
        "exact": rows[:, 0].mean(),
        "connectivity": rows[:, 1].mean(),
        "bonds": rows[:, 2].sum() / rows[:, 3].sum(),
        "charge": rows[:, 4].mean(),
        "failures": float(np.mean([answer.mol is None for answer in answers])),
        "milliseconds": clock,
        "cpu_milliseconds": busy,
    }
    sure = np.array([answer.sure for answer in answers])
    if not np.isnan(sure).all():
        found["sure"] = float((sure > SURE).mean())
        if (sure > SURE).any():
            found["right_if_sure"] = rows[sure > SURE, 0].mean()
    return found


def judged(case: Case, mol: Any) -> tuple[bool, bool, float, float, bool]:
    """Whether the molecule is right, its connectivity, how many bonds are right and of how many, the total charge."""
    from rdkit import Chem

    bonds = case.truth.GetNumBonds()
    if mol is None:
        return False, False, 0, bonds, False
    try:
        bare = Chem.RemoveHs(mol)
        Chem.RemoveStereochemistry(bare)
        charge = Chem.GetFormalCharge(bare)
        same = Chem.MolToSmiles(bare) == Chem.MolToSmiles(Chem.RemoveHs(case.truth))
        ours, theirs = (Chem.MolToInchi(one, options="/FixedH /SNon") for one in (bare, case.truth))
    except (ValueError, RuntimeError):
        return False, False, 0, bonds, False
    right = same or (ours == theirs and bool(ours) and charge == case.charge)
    layers = [word.split("/")[2:3] for word in (ours, theirs)]
    # Heavy atoms come first, in the order of the file, in both.
    kinds = [
        {
            (*sorted((bond.GetBeginAtomIdx(), bond.GetEndAtomIdx())), bond.GetBondTypeAsDouble())
            for bond in one.GetBonds()
        }
        for one in (bare, case.truth)
    ]
    return right, layers[0] == layers[1], len(kinds[0] & kinds[1]), bonds, charge == case.charge


def rdkit_rules(cases: Sequence[Case], whole: bool, given: bool) -> list[Answer]:
    """``DetermineBonds``, in a process that is ended when it takes too long."""
    peer("rdkit.Chem.rdDetermineBonds", "DetermineBonds")
    answers, worker = [], Worker()
    for case in cases:
        answers.append(worker.ask(case.xyz(), case.charge if given else 0))
    worker.end()
    return answers


class Worker:
    """A process that applies the rules to one molecule after another."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.pipe, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.get_context("fork").Process(target=serve, args=(theirs,), daemon=True)
        self.process.start()

    def ask(self, xyz: str, charge: int) -> Answer:
        self.pipe.send((xyz, charge))
        if self.pipe.poll(PATIENCE):
            block, seconds = self.pipe.recv()
            return Answer(read_mol(block), seconds)
        self.end()
        self.begin()
        return Answer(None, np.full(2, PATIENCE))

    def end(self) -> None:
        self.process.kill()
        self.process.join()


def serve(pipe: Connection) -> None:
    from rdkit import Chem, rdBase
    from rdkit.Chem.rdDetermineBonds import DetermineBonds

    rdBase.DisableLog("rdApp.*")
    while True:
        xyz, charge = pipe.recv()
        start = now()
        try:
            mol = Chem.MolFromXYZBlock(xyz)
            DetermineBonds(mol, charge=charge, embedChiral=False)
            block = Chem.MolToV3KMolBlock(mol)
        except (ValueError, RuntimeError):
            block = ""
        pipe.send((block, (now() - start)[:2]))


def read_mol(block: str) -> Any:
    from rdkit import Chem

    mol = Chem.MolFromMolBlock(block, removeHs=False) if block else None
    if mol is not None and any(atom.GetNumRadicalElectrons() for atom in mol.GetAtoms()):
        return None  # no molecule here is a radical
    return mol


def babel(cases: Sequence[Case], whole: bool) -> list[Answer]:
    """Open Babel's program over one file of all molecules; the time is shared out equally."""
    from rdkit import Chem, rdBase

    rdBase.DisableLog("rdApp.*")
    with TemporaryDirectory(prefix="gln-") as place:
        source, target = Path(place, "in.xyz"), Path(place, "out.sdf")
        source.write_text("".join(case.xyz() for case in cases))
        start = now()
        try:
            subprocess.run(["obabel", str(source), "-O", str(target), "-x3"], check=True, capture_output=True)
        except FileNotFoundError:
            raise GLNError("The peer needs the program obabel; install Debian's package openbabel.") from None
        seconds = (now() - start)[[0, 2]] / len(cases)
        blocks = target.read_text().split("$$$$\n")[: len(cases)]
    mols = [Chem.MolFromMolBlock(block, removeHs=False) for block in blocks]
    return [Answer(mol, seconds) for mol in mols] + [Answer(None, seconds)] * (len(cases) - len(mols))


def by_model(name: str, batch_size: int) -> Callable[[Sequence[Case], bool], list[Answer]]:
    """A model in this process, which has answered the largest molecules before it is timed."""

    def ask(cases: Sequence[Case], whole: bool) -> list[Answer]:
        from gln.adapters.rdkit import to_mol
        from gln.inference.choice import Choice
        from gln.io import ReadOptions
        from gln.io.items import Source
        from gln.io.molecules import Molecule, item_of
        from gln.workflows.forms import Chemistry
        from gln.workflows.methods import load

        model = load(name)
        chemistry, options = Chemistry.of(model), ReadOptions(elements=ELEMENTS, only_elements=True)
        items = [
            item_of(
                Source(Path(f"{n}.xyz"), f"{n}", options), Molecule(case.pos.tolist(), case.symbols, ""), None
            )
            for n, case in enumerate(cases)
        ]
        answers = [Answer(None, np.full(2, np.nan))] * len(items)
        order = sorted(range(len(items)), key=lambda number: len(cases[number].symbols))
        largest = [items[number] for number in order[-batch_size:]]
        chemistry.ask(model, largest, Choice(batch_size=batch_size))
        asked = 1 if batch_size == 1 else WINDOW
        for first in range(0, len(order), asked):
            some = order[first : first + asked]
            start = now()
            done = chemistry.ask(model, [items[number] for number in some], Choice(batch_size=batch_size))
            seconds = (now() - start)[:2] / len(some)
            for number in some:
                answers[number] = Answer(None, seconds)
            for item, answer in done.answers:
                try:
                    mol = to_mol(answer, item)
                except (GLNError, ValueError):
                    mol = None
                answers[int(item.path.stem)] = Answer(mol, seconds, float(answer.molecule_prob))
        return answers

    return ask
