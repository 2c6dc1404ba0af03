"""The mixing of pairs over third nodes: one operator for all pairs, one for pairs in a list."""
