"""Graph families: seeded recipes for graphs, one file each."""

from gln.families.base import FAMILIES, Family, family, parse_family, register
from gln.families.community import Community
from gln.families.delaunay import Delaunay
from gln.families.figures import Figures
from gln.families.surfaces import Surfaces

__all__ = [
    "FAMILIES",
    "Community",
    "Delaunay",
    "Family",
    "Figures",
    "Surfaces",
    "family",
    "parse_family",
    "register",
]
