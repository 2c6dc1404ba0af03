"""``python -m gln`` is the command line."""

from gln.cli import main

main()
