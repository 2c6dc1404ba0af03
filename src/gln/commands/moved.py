"""Commands that are not part of the package any more, and the sentence each answers with."""

from __future__ import annotations

WHERE = "moved out of the package; in a clone of the repository run: python -m"
MOVED = {
    "bench": f"benchmarks {WHERE} benchmarks NAME",
    "reproduce": f"the tables and figures of the paper {WHERE} reproduction EXPERIMENT",
}
