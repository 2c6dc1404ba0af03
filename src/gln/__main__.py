"""Entry point of ``python -m gln``."""

from gln.commands.cli import main

main()
