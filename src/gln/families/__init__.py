"""Graph families: seeded recipes for graphs, one file each."""

from gln.families.base import FAMILIES, Family, family, parse_family, register
from gln.families.community import Community
from gln.families.delaunay import Delaunay, Nearest, Roads
from gln.families.figures import Figures
from gln.families.particles import Particles
from gln.families.published import SBM, Planar, Tree
from gln.families.shapes import Shapes
from gln.families.surfaces import Surfaces

__all__ = [
    "FAMILIES",
    "SBM",
    "Community",
    "Delaunay",
    "Family",
    "Figures",
    "Nearest",
    "Particles",
    "Planar",
    "Roads",
    "Shapes",
    "Surfaces",
    "Tree",
    "family",
    "parse_family",
    "register",
]
