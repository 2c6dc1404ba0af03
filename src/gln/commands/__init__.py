"""The commands of ``gln``, each a typed function whose docstring is its help.

Heavy imports happen inside the commands, so that ``--help`` is instant.
"""
