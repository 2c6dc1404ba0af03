"""Entry point of ``python -m gln``."""

from gln.cli import main

main()
