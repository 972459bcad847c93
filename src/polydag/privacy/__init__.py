"""Protection of what leaves a party: masked sums, differential privacy, and a ledger of both.

`docs/explanations/privacy.md` describes the protocol, what it protects from whom, and what it does not
protect.

`settings` holds `Privacy`, which a user chooses. `masking` forms sums under masks; `dp` adds noise and keeps
the privacy account; `differencing` decides which sets of parties may be summed over; `ledger` records for a
party's owner everything that left. Nothing here knows about messages or methods: `polydag.federated` puts it
to work.
"""
