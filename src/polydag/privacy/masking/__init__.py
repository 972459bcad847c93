"""Sums under masks.

`ring` holds fixed-point numbers, `keystreams` keys and random words, `shamir` secret sharing, `identities`
the parties' keys; `agreement` is what the sites of a study agree on, `site` a site's side of a masked sum and
`coordinator` the coordinator's.
"""
