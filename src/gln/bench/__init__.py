"""Benchmarks: speed and memory, compared with peers."""
