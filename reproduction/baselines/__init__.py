"""The generators that the paper compares with, which nobody would pick for work of their own.

Importing this registers them with :mod:`gln.baselines`.
"""

from reproduction.baselines.graphrnn import GraphRNN
from reproduction.baselines.kronecker import Kronecker
from reproduction.baselines.mmsb import MMSB

__all__ = ["MMSB", "GraphRNN", "Kronecker"]
