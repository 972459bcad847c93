"""The network with the highest score, with a proof of optimality."""
