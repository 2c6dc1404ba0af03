"""The mixing of pairs over third nodes: one operator for all pairs, one for pairs in a list."""

from gln.ops.mix import mix_all, mix_listed

__all__ = ["mix_all", "mix_listed"]
