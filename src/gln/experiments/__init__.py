"""Every table and figure of the paper as data, and the runner behind ``gln reproduce`` that fills them."""

from gln.experiments.runner import Cell, Places, cells_of, choose, run_cell, run_cells
from gln.experiments.specs import Experiment, Scale, Settings, columns, experiment, experiments, systems

__all__ = [
    "Cell",
    "Experiment",
    "Places",
    "Scale",
    "Settings",
    "cells_of",
    "choose",
    "columns",
    "experiment",
    "experiments",
    "run_cell",
    "run_cells",
    "systems",
]
