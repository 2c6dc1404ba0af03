"""Benchmarks: speed and memory, side by side with peers. ``python -m benchmarks NAME``."""

import gln  # noqa: F401  (before torch, so that threads that wait sleep, as for everybody who follows the guides)
