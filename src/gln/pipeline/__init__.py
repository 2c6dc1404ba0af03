"""From files to edges, and from files to a trained model: what ``gln predict`` and ``gln train`` do.

Readers and writers know no models, and models know no files; this package connects them.
"""
