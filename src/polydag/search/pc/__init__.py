"""PC: an order-independent skeleton from tests of independence, colliders by vote, and orientation."""

from polydag.search.pc.independence_tests.choice import make_test
from polydag.search.pc.independence_tests.fisher_z import FisherZ
from polydag.search.pc.independence_tests.g_square import AskedGSquare, GSquare
from polydag.search.pc.independence_tests.sweeps import IndependenceTest
from polydag.search.pc.search import COLLIDERS, PCResult, automatic_level, pc
from polydag.search.pc.skeleton import Level, SeparatingSets

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
