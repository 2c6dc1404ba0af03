"""Do the same work in two ways, ours and another, side by side on this machine, and print the ratio of their times."""

from __future__ import annotations

import argparse
import shlex
from importlib import import_module
from pathlib import Path
from typing import Any

import tyro

from benchmarks.common import notes, table
from gln.errors import GLNError
from gln.storage.provenance import check_source, write_result

NAMES = (
    "cold",
    "communities",
    "families",
    "fuzz",
    "honest-scores",
    "large-set",
    "loaded",
    "mesh",
    "mesh-scale",
    "mixing",
    "mmd",
    "mmd-scaling",
    "molecules",
    "old-and-new",
    "onnx",
    "orbits",
    "paper-step",
    "play",
    "predict",
    "predict-files",
    "ray-sets",
    "scale",
    "schedule",
    "surfaces-step",
    "tiles",
    "time-to-accuracy",
    "train-step",
    "triangle",
    "view",
)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        epilog="Other flags are the parameters of run() in the benchmark's file: python -m benchmarks mmd --graphs 20",
        allow_abbrev=False,
    )
    parser.add_argument("name", choices=NAMES, metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("-o", "--output", type=Path, help="also save what was measured, as JSON")
    words, settings = parser.parse_known_args()
    command = shlex.join(["python", "-m", "benchmarks", words.name, *settings])
    try:
        if words.output is not None:
            check_source(words.output)
        module = import_module(f"benchmarks.{words.name.replace('-', '_')}")
        facts = tyro.cli(module.run, prog=f"python -m benchmarks {words.name}", args=settings)
        show(facts)
        if words.output is not None:
            write_result(words.output, command, facts["settings"]["seed"], facts)
    except GLNError as error:
        parser.exit(2, f"benchmarks: {error}\n")


def show(facts: dict[str, Any]) -> None:
    """Print settings, notes, and the table with its columns one below the other."""
    for key, value in facts["settings"].items():
        print(f"{key:<24}{value}")
    print("", *notes(facts), sep="\n")
    rows = table(facts)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))


if __name__ == "__main__":
    main()
