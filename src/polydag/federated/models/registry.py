"""All models by name; to add one, write a file and a line here."""

from __future__ import annotations

from polydag.federated.models.interface import Model
from polydag.federated.models.lagged import Lagged
from polydag.federated.models.linear import Linear
from polydag.federated.models.networks import Networks

MODELS: dict[str, Model] = {
    model.name: model for model in (Linear(), Lagged(), Networks("mlp"), Networks("masked"))
}
