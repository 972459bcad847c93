"""All federated methods by name; to add one, write a file and a line here."""

from __future__ import annotations

from polydag.federated.methods.admm import AdmmMethod
from polydag.federated.methods.fedavg import FedAvgMethod
from polydag.federated.methods.interface import Method
from polydag.federated.methods.varying import VaryingMethod
from polydag.federated.methods.voting import VotingMethod

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        AdmmMethod(),
        FedAvgMethod(),
        VaryingMethod(),
        VotingMethod(),
    )
}
