"""PC: an order-independent skeleton from tests of independence, colliders by vote, and orientation."""

from polydag.search.pc.fisher_z import FisherZ
from polydag.search.pc.g_square import AskedGSquare, GSquare
from polydag.search.pc.independence import make_test
from polydag.search.pc.search import COLLIDERS, PCResult, automatic_level, pc
from polydag.search.pc.skeleton import Level, SeparatingSets
from polydag.search.pc.sweeps import IndependenceTest

__all__ = [
    "COLLIDERS",
    "AskedGSquare",
    "FisherZ",
    "GSquare",
    "IndependenceTest",
    "Level",
    "PCResult",
    "SeparatingSets",
    "automatic_level",
    "make_test",
    "pc",
]
