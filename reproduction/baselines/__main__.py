"""``python -m reproduction.baselines``: the commands of ``gln``, which here know these baselines as well."""

from gln.commands.cli import main

if __name__ == "__main__":
    main()
