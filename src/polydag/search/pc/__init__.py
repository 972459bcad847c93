"""PC: an order-independent skeleton from tests of independence, colliders by vote, and orientation."""

from polydag.search.pc.engine import COLLIDERS, PCResult, pc
from polydag.search.pc.independence import FisherZ, GSquare, IndependenceTest, make_test
from polydag.search.pc.skeleton import Level, SeparatingSets

__all__ = [
    "COLLIDERS",
    "FisherZ",
    "GSquare",
    "IndependenceTest",
    "Level",
    "PCResult",
    "SeparatingSets",
    "make_test",
    "pc",
]
