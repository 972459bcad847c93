"""Structure learning over parties that keep their rows (Ng and Zhang 2022, and extensions).

A method is a pair of plain objects that never see a message: the coordinator's side (`Program`) asks a
question and receives the *sum* of the answers; a party's side (`Local`) answers it. `run_study` runs a
program over parties under the protection that `Privacy` asks for.

- `methods`: one file for each method, in the registry `METHODS`.
- `models`: the form of a variable given its parents, in the registry `MODELS`.
- `session`: a study from program to result, with ledgers and checkpoints.
- `protocol`: messages, and the coordinator and the sites as state machines.
"""

from polydag.federated.protocol.coordinator import Coordinator, CoordinatorState
from polydag.federated.protocol.engine import Federation, run
from polydag.federated.protocol.messages import Message
from polydag.federated.protocol.programs import Answer, Ask, Local, Program
from polydag.federated.protocol.site import Site, SiteState
from polydag.federated.session import Outcome, run_study

__all__ = [
    "Answer",
    "Ask",
    "Coordinator",
    "CoordinatorState",
    "Federation",
    "Local",
    "Message",
    "Outcome",
    "Program",
    "Site",
    "SiteState",
    "run",
    "run_study",
]
