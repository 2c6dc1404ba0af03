"""``gln bench``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from gln.errors import GLNError

BENCHMARKS = {
    "mmd": "mmd",
    "orbits": "orbits",
    "paper-step": "paper_step",
    "predict": "predict",
    "predict-files": "predict_files",
    "scale": "scale",
    "time-to-accuracy": "time_to_accuracy",
    "train-step": "train_step",
}  # by name, the module in gln.bench


def bench(
    name: Annotated[Positional[str], arg(metavar="NAME", help=f"One of: {', '.join(sorted(BENCHMARKS))}.")],
    output: Annotated[
        Path | None, arg(aliases=["-o"], metavar="PATH", help="Also save the figures as JSON.")
    ] = None,
) -> None:
    """Compare the speed of gln with a peer, side by side on this machine, and print the ratio.

    Example: gln bench mmd
    """
    from importlib import import_module

    if name not in BENCHMARKS:
        raise GLNError(f"There is no benchmark {name!r}; choose from {', '.join(sorted(BENCHMARKS))}.")
    module = import_module(f"gln.bench.{BENCHMARKS[name]}")
    row = module.run()
    for key, value in row["settings"].items():
        print(f"{key:<24}{value}")
    if hasattr(module, "table"):  # its only peer is itself at another size
        print(module.table(row))
    else:
        print(f"{'ours':<24}{row['ours_seconds']:.4f} s")
        print(f"{'peer':<24}{row['peer_seconds']:.4f} s")
        print(f"{'peer / ours':<24}{row['ratio']:.1f}×")
    if output is not None:
        from gln.storage.provenance import write_result

        write_result(output, f"gln bench {name}", row["settings"]["seed"], row)
