"""Models, the form of a variable given its parents: each one object in the registry `MODELS`.

A model builds the two sides of a study: what a party computes from its own data (`linear_party`,
`network_party`) and what the coordinator does with the sums (`linear_coordinator`, `network_coordinator`).
"""
