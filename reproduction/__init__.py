"""Every table and figure of the paper as data, and the runner that fills them: ``python -m reproduction``."""
