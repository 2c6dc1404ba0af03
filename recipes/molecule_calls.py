"""Train the model of molecules in three calls of some minutes, on a machine with a GPU where rdkit is not installed.

First, here: what the machine lacks, packed into a folder that travels with the tree (``WHEEL`` is rdkit's, for the
Python of that machine; about 9 MB, with the list of molecules 10 MB)::

    python recipes/molecule_smiles.py list STATE/molecules.json.xz --moses FOLDER --more FILES
    python recipes/molecule_calls.py pack STATE --wheel WHEEL

Then there, three times, each as soon as the one before has ended; what it leaves in ``$OUT``, a file ``run.tar`` of at
most 16 MB, is first copied into ``STATE``, so that a fresh machine goes on as well as the one before::

    PYTHONPATH=src:. python3 recipes/molecule_calls.py train STATE --out $OUT --call 1
    PYTHONPATH=src:. python3 recipes/molecule_calls.py train STATE --out $OUT --call 2
    PYTHONPATH=src:. python3 recipes/molecule_calls.py train STATE --out $OUT --call 3

Other processes make conformers all the while, and what is there is learned; they stay on the machine and do not travel.
They may be started before, in any earlier command there, and go on for so many minutes after it has ended::

    PYTHONPATH=src:. python3 recipes/molecule_calls.py make STATE --minutes 30

A call that finds none at work starts its own, which end with it. The last call also tests the model. Each call ends by
itself within ``--minutes``; the rate of learning falls over all of them. A call that failed is given again, with its
number. In the end, where rdkit is, the model learns how sure it may be, by molecules as they are::

    python recipes/molecule_smiles.py natural natural.csv.xz --list STATE/molecules.json.xz
    python recipes/molecule_conformers.py STATE/molecules.json.xz FOLDER --list natural.csv.xz --minutes 4
    python recipes/molecules.py calibrate --held-out FOLDER --run RUN
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import traceback
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from recipes.molecule_labels import PART, write

BEGUN = time.monotonic()
CALLS = 3
SPARE = 20  # seconds at the end of a call, for what is kept,
LAST = 40  # and of the last one, for tests
IDLE = 60  # seconds without new conformers, after which the processes that make them are taken for dead
HELD_OUT = 1200  # molecules
MAKERS = "makers.json"  # tells of processes that outlive a command
ENOUGH = 4000  # conformers, with which training begins
TRIES = 4  # to train, if it fails
PATIENCE = 100  # seconds, after which it begins with fewer
# Of rdkit: what the recipes import, what that loads, and no more.
PARTS = """
__init__ rdBase RDConfig RDLogger RDPaths Chem/__init__ Chem/inchi Chem/rdCIPLabeler Chem/rdCoordGen Chem/rdDistGeom
Chem/rdForceFieldHelpers Chem/rdMolInterchange Chem/rdchem Chem/rdinchi Chem/rdmolfiles Chem/rdmolops
DataStructs/__init__ DataStructs/cDataStructs ForceField/__init__ ForceField/rdForceField Geometry/__init__
Geometry/rdGeometry
"""


def pack(given: argparse.Namespace) -> None:
    """Put the parts of rdkit that conformers need into ``STATE``."""
    given.state.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(given.wheel) as wheel, tarfile.open(given.state / "rdkit.tar.xz", "w:xz") as packed:
        libraries = {Path(name).name.encode(): name for name in wheel.namelist() if "/lib" in name}
        wanted = {f"rdkit/{name}{end}" for name in PARTS.split() for end in (".py", ".so")}
        todo = sorted(wanted & set(wheel.namelist()))
        for name in todo:
            content = wheel.read(name)
            about = tarfile.TarInfo(name)
            about.size = len(content)
            packed.addfile(about, io.BytesIO(content))
            # A library names those that it loads.
            todo += [path for word, path in libraries.items() if word in content and path not in todo]


def unpacked(file: Path, folder: Path) -> Path:
    """The folder with what is in the file, unless it is there already."""
    if not folder.exists() and file.exists():
        with tarfile.open(file) as packed, tempfile.TemporaryDirectory(dir=folder.parent) as new:
            packed.extractall(f"{new}/it", filter="data")
            os.rename(f"{new}/it", folder)
    return folder


def make(given: argparse.Namespace) -> None:
    """Start the processes that make conformers and let them go on after this command has ended."""
    given.place.mkdir(parents=True, exist_ok=True)
    found = started_makers(given, 0, BEGUN + 60 * given.minutes, given.place / "makers.log")
    until = time.time() + 60 * given.minutes
    (given.place / MAKERS).write_text(json.dumps({"process": found.pid, "until": until}))
    print(f"process {found.pid} makes conformers for {given.minutes:g} minutes", flush=True)


def made_ahead(place: Path) -> bool:
    """Whether processes of an earlier command make conformers: one was made, or they were started, a moment ago."""
    note = place / MAKERS
    if not note.exists():
        return False
    about = json.loads(note.read_text())
    try:
        os.kill(about["process"], 0)
    except ProcessLookupError:
        return False
    if time.time() > about["until"] - IDLE:
        return False
    times = [path.stat().st_mtime for path in (note, place / "parts") if path.exists()]
    return time.time() - max(times) < IDLE


def train(given: argparse.Namespace) -> None:
    """One call: make conformers, learn from them, keep the state."""
    last = given.call == CALLS
    end = BEGUN + 60 * given.minutes - SPARE - (LAST if last else 0)
    given.place.mkdir(parents=True, exist_ok=True)
    run, parts = unpacked(given.state / "run.tar", given.place / "run"), given.place / "parts"
    makers = Makers(given, end)
    try:
        from recipes.molecules import settings, test  # takes a while, in which conformers are made

        held_out = run / "held-out.npz.xz"
        run.mkdir(exist_ok=True)
        wait(given, makers, held_out)
        words = ["train", "--data", str(parts), "--held-out", str(held_out), "--run", str(run / "model")]
        words += ["--call", str(given.call), "--calls", str(CALLS), *given.more]
        learn(words, end)
    finally:
        makers.close()
        keep(run, given.out)
    if last:
        test(settings([*words, "--minutes", "0"]))
    print(f"call {given.call} ended after {time.monotonic() - BEGUN:.0f} seconds", flush=True)


def started_makers(
    given: argparse.Namespace, seed: int, end: float, log: Path | None = None
) -> subprocess.Popen[bytes]:
    """The processes that make conformers until ``end``; those of another ``seed`` make others."""
    where = unpacked(given.state / "rdkit.tar.xz", given.place / "rdkit").absolute()
    paths = [str(where), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    own = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    held_out = 0 if (given.place / "run" / "held-out.npz.xz").exists() else given.held_out
    words = [str(given.state / "molecules.json.xz"), str(given.place / "parts"), "--parts"]
    words += ["--processes", str(given.processes), "--minutes", str((end - time.monotonic()) / 60)]
    words += ["--seed", str(seed), "--held-out", str(held_out)]
    program = Path(__file__).with_name("molecule_conformers.py")
    command = ["nice", sys.executable, str(program), *words]
    # Of a command that has ended, nothing may hold the output open.
    written: Any = None if log is None else log.open("w")
    return subprocess.Popen(
        command, env=own, stdin=subprocess.DEVNULL, stdout=written, stderr=written, start_new_session=True
    )


class Makers:
    """Sees to it that conformers are made until ``end``, by processes of this call where those of others do not."""

    def __init__(self, given: argparse.Namespace, end: float) -> None:
        self.given, self.end, self.over = given, end, threading.Event()
        self.own: subprocess.Popen[bytes] | None = None
        self.look()
        self.thread = threading.Thread(target=self.keep_looking, daemon=True)
        self.thread.start()

    def look(self) -> None:
        late = time.monotonic() > self.end - IDLE / 2
        if self.own is None and not late and not made_ahead(self.given.place):
            print("this call makes conformers", flush=True)
            self.own = started_makers(self.given, self.given.call, self.end)

    def keep_looking(self) -> None:
        while not self.over.wait(3):
            self.look()

    def close(self) -> None:
        """End those of this call, with those that they started."""
        self.over.set()
        self.thread.join()
        if self.own is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.own.pid, signal.SIGTERM)


def wait(given: argparse.Namespace, makers: Makers, held_out: Path) -> None:
    """Until there is something to learn from; what is held out is kept in a file of its own, once."""
    parts = given.place / "parts"
    while True:
        made, held = (len(list(parts.glob(f"{kind}-*.npz"))) for kind in ("part", "held-out"))
        late = time.monotonic() > BEGUN + PATIENCE
        if (held or held_out.exists()) and made and (late or made * PART >= given.enough):
            break
        if makers.own is not None and makers.own.poll() is not None:
            sys.exit("No conformers are made; see above why.")
        time.sleep(0.5)
    if not held_out.exists():
        write([dict(np.load(path)) for path in sorted(parts.glob("held-out-*.npz"))], held_out)
    print(f"training begins after {time.monotonic() - BEGUN:.0f} seconds", flush=True)


def learn(words: list[str], end: float) -> None:
    """Train until the end; where training fails, go on from what was kept last, more carefully."""
    from recipes.molecules import Timed, settings, train

    for _ in range(TRIES):
        try:
            return train(settings([*words, "--minutes", str((end - time.monotonic()) / 60)]))
        except Exception:
            traceback.print_exc()
            Timed.slowed /= 2


def keep(run: Path, out: Path) -> None:
    """The state of the training as one file."""
    new = out / "run.new"
    with tarfile.open(new, "w") as packed:
        for path in sorted(run.rglob("*")):
            if path.is_file() and "tensorboard" not in path.parts:
                packed.add(path, str(path.relative_to(run)))
    new.rename(out / "run.tar")
    for path in run.glob("model/model.*"):  # once more, small and on its own
        shutil.copy(path, out)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=["pack", "make", "train"])
    parser.add_argument("state", type=Path)
    parser.add_argument("--wheel", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--call", type=int, default=1, choices=range(1, CALLS + 1))
    parser.add_argument("--minutes", type=float, default=8.5)
    parser.add_argument("--processes", type=int, default=12)
    parser.add_argument("--place", type=Path, default=Path(tempfile.gettempdir(), "gln-molecules"))
    parser.add_argument("--held-out", type=int, default=HELD_OUT)
    parser.add_argument("--enough", type=int, default=ENOUGH)
    parser.add_argument(
        "--more", nargs=argparse.REMAINDER, default=[], help="settings of recipes/molecules.py"
    )
    given = parser.parse_args()
    {"pack": pack, "make": make, "train": train}[given.action](given)


if __name__ == "__main__":
    main()
