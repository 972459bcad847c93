"""Protection of what leaves a site: masked sums, differential privacy, and a ledger of all of it.

`docs/privacy.md` describes the protocol, what it protects from whom, and what it does not.

`ring` holds fixed point, `streams` keys and random words, `shamir` shares, `identities` who is who; `terms`
is what a study agrees on, `masking` a site's side of a sum and `opening` the coordinator's; `rules` says
which sets of sites may be summed over; `noise`, `clipping` and `accounting` are differential privacy;
`ledger` is what the owner reads. Nothing here knows of messages or methods: `polydag.federated` puts all of
it behind its state machines.
"""
