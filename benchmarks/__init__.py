"""Benchmarks: speed and memory, side by side with peers. ``python -m benchmarks NAME``."""
