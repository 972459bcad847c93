"""Structure learning over parties that keep their rows (Ng and Zhang 2022, and past it).

A site and the coordinator are pure state machines (`machine`): `step(state, inbox) -> (state, outbox)`. A
method is a pair of plain objects that never see a message: the coordinator's side (`Program`) asks a question
and is given the *sum* of the answers, a site's side (`Local`) answers it. What is summed, and how, is decided
in one place, `sums`. An engine only carries messages; `engine` does so within one process.
"""

from polydag.federated.protocol.engine import Federation, run
from polydag.federated.protocol.machine import Coordinator, CoordinatorState, Site, SiteState
from polydag.federated.protocol.messages import Message
from polydag.federated.protocol.programs import Answer, Ask, Local, Program

__all__ = [
    "Answer",
    "Ask",
    "Coordinator",
    "CoordinatorState",
    "Federation",
    "Local",
    "Message",
    "Program",
    "Site",
    "SiteState",
    "run",
]
