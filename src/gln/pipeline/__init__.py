"""From users' files to edges, and from users' files to a trained model: what ``gln predict`` and ``gln train`` do.

Readers and writers know no model, models know no file; here they meet.
"""
