"""Files changed at random, by the million: a reader gives graphs or a sentence, soon and in little memory.

Not side by side with anything: it counts the files at which a reader failed, hung or took too much. The work is cut
into pieces; what is done lies in a folder and is not done again, so that it may be interrupted at any time.
"""

from __future__ import annotations

import json
import multiprocessing
import random
import resource
import time
import traceback
from collections.abc import Callable
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.fuzz_targets import PREPARE, TARGETS, prepare
from gln.errors import GLNError
from gln.storage.facts import write_json
from gln.storage.provenance import commit

SECONDS = 20  # a file that takes longer hangs
BYTES = 4 * 2**30  # memory that no file may take
PIECE = 2_000  # files


def run(
    mutations: int = 1_000_000, folder: Path = Path("build/fuzz"), only: str = "", seed: int = 0
) -> dict[str, Any]:
    """Change files and read them.

    Args:
        mutations: how many in all, the same number of every format.
        folder: where finished pieces are kept.
        only: these formats, separated by commas.
        seed: the same seed makes the same files.
    """
    names = only.split(",") if only else list(TARGETS)
    if not set(names) <= set(TARGETS):
        raise GLNError(f"Got only={only!r}; choose from {', '.join(TARGETS)}.")
    folder.mkdir(parents=True, exist_ok=True)
    each = -(-mutations // len(names))
    with TemporaryDirectory(
        prefix="gln-fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None
    ) as place:
        prepare(Path(place))
        for name in PREPARE.keys() & names:
            PREPARE[name](Path(place))
        for start in range(0, each, PIECE):
            for name in names:
                path = folder / f"{name}-{seed}-{start:07d}.json"
                if not path.exists() or json.loads(path.read_text())["failures"]:
                    write_json(path, piece(name, seed, start, min(PIECE, each - start), Path(place)))
    rows = [_row(name, seed, folder) for name in names]
    facts = {
        "name": "fuzz",
        "rows": rows,
        "settings": {"mutations": sum(row["files"] for row in rows), "seed": seed},
    }
    limits = {"seconds_allowed": SECONDS, "bytes_allowed": BYTES}
    return facts | limits | {"commits": _commits(folder)}


def _row(name: str, seed: int, folder: Path) -> dict[str, Any]:
    pieces = [json.loads(path.read_text()) for path in sorted(folder.glob(f"{name}-{seed}-*.json"))]
    total = {key: sum(each[key] for each in pieces) for key in ("files", "read", "refused", "seconds")}
    failures = [failure for each in pieces for failure in each["failures"]]
    slowest = max(each["slowest"] for each in pieces)
    return {"format": name} | total | {"slowest": slowest, "failed": len(failures), "failures": failures[:20]}


def _commits(folder: Path) -> list[str]:
    found = {json.loads(path.read_text())["commit"] for path in folder.glob("*.json")}
    return sorted(map(str, found))


def piece(name: str, seed: int, start: int, count: int, place: Path) -> dict[str, Any]:
    """Read ``count`` files of a format in processes of their own; one that hangs or dies is replaced."""
    facts: dict[str, Any] = {"files": count, "read": 0, "refused": 0, "seconds": 0.0, "slowest": 0.0}
    facts |= {"failures": [], "commit": commit()}
    fork = multiprocessing.get_context("fork")
    at, end = start, start + count
    while at < end:
        current, (ours, theirs) = fork.Value("q", at), fork.Pipe(duplex=False)
        child = fork.Process(target=_work, args=(name, seed, at, end, place, current, theirs))
        child.start()
        theirs.close()
        found, why = _watch(child, current, ours)
        if found is not None:
            for key in ("read", "refused", "seconds"):
                facts[key] += found[key]
            facts["slowest"] = max(facts["slowest"], found["slowest"])
            facts["failures"] += found["failures"]
            break
        facts["failures"].append({"number": current.value, "what": why})
        at = current.value + 1
    return facts


def _watch(child: Any, current: Synchronized[int], pipe: Any) -> tuple[dict[str, Any] | None, str]:
    """What the process found, or why it found nothing."""
    last, since = current.value, time.monotonic()
    while True:
        if pipe.poll(0.2):
            try:
                found = pipe.recv()
            except EOFError:
                child.join()
                return None, f"the process died ({child.exitcode})"
            child.join()
            return found, ""
        if current.value != last:
            last, since = current.value, time.monotonic()
        if time.monotonic() - since > SECONDS:
            child.kill()
            child.join()
            return None, f"no answer in {SECONDS} seconds"


def _work(name: str, seed: int, start: int, end: int, place: Path, current: Any, pipe: Any) -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + BYTES, used + BYTES))
    found: dict[str, Any] = {"read": 0, "refused": 0, "seconds": 0.0, "slowest": 0.0, "failures": []}
    target: Callable[[random.Random, Path], bool] = TARGETS[name]
    for number in range(start, end):
        current.value = number
        rng, begun = random.Random(f"{seed} {name} {number}"), time.perf_counter()
        try:
            found["read" if target(rng, place) else "refused"] += 1
        except GLNError as error:
            found["refused"] += 1
            if "\n" in str(error):
                found["failures"].append({"number": number, "what": f"two lines: {str(error)[:200]}"})
        except BaseException:
            found["failures"].append({"number": number, "what": traceback.format_exc()[-1500:]})
        took = time.perf_counter() - begun
        found["seconds"], found["slowest"] = found["seconds"] + took, max(found["slowest"], took)
        if took > SECONDS:
            found["failures"].append({"number": number, "what": f"{took:.0f} seconds"})
    pipe.send(found)
