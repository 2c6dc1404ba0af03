"""The commands of ``gln``, each a typed function whose docstring is its help.

Everything heavy is imported inside a command, so that ``--help`` is instant.
"""
