"""What the reproduction cost, from the seconds and the device recorded in every cell."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

from gln.experiments.runner import Places, cells_of
from gln.experiments.specs import experiments
from gln.experiments.tables import Measured


def cost(cells: dict[str, Measured]) -> list[str]:
    """Minutes on each kind of device, training included."""
    seconds: defaultdict[str, float] = defaultdict(float)
    counted: defaultdict[str, int] = defaultdict(int)
    for device, spent in spendings(cells):
        seconds[device] += spent
        counted[device] += 1
    if not seconds:
        return ["Nothing has been measured yet."]
    parts = [
        f"{seconds[device] / 60:.0f} minutes on {device} ({cells_in_words(counted[device])})"
        for device in sorted(seconds)
    ]
    return [
        f"The cells on this page took {' and '.join(parts)}, including the training of their networks; "
        "those that ran side by side on one device each count in full. Not counted: time that GraphRNN spent before it "
        "was interrupted and resumed, and the training of GLN on sets, which recipes do; the cards of the shipped "
        "models say how long that takes."
    ]


def spendings(cells: dict[str, Measured]) -> list[tuple[str, float]]:
    """The kind of device and the seconds of every cell, each counted once.

    Several cells may share one training. It is counted with the cell that was measured first, whose seconds include
    the training, or only its end if part of it existed already.
    """
    by_run: defaultdict[Path, dict[str, dict[str, Any]]] = defaultdict(dict)
    for name, one in experiments().items():
        for cell in cells_of(one, "full"):
            measured = cells[name].get(cell.name)
            if measured is not None and "cannot" not in measured:
                by_run[cell.run_folder(Places())][cell.key] = measured
    found = []
    for group in by_run.values():
        first, *others = sorted(group.values(), key=lambda measured: str(measured["environment"]["time"]))
        training, spent = first.get("system", {}).get("training_seconds", 0.0), first["seconds"]
        found.append((kind_of(first["device"]), max(spent, training)))
        found += [(kind_of(measured["device"]), measured["seconds"]) for measured in others]
    return found


def cells_in_words(count: int) -> str:
    return f"{count} cell{'' if count == 1 else 's'}"


def kind_of(device: str) -> str:
    """``CPU`` whatever the number of threads, or the name of the GPU."""
    return "CPU" if device.startswith("CPU") else device
