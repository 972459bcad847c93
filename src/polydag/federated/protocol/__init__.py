"""The protocol of a study: messages, and the coordinator and the sites as pure state machines.

`step(state, inbox) -> (state, outbox)`: no clock, no files, no hidden memory; a time-out is a message. States
are frozen and can be saved between any two steps (`storage`), and a restored study has the same outcome.

- `messages`: what travels; `programs`: what a method consists of; `checks`: whether arrays are as expected.
- `coordinator` and `site`: the two state machines. `engine` carries messages between them within one process;
  `resume` does so in blocks of rounds that survive an interruption.
- `sums`: the only place where the sites' numbers meet. In the open, a round is one question and one answer.
  Masked, it has the phases of `coordinator_masking` (the coordinator's side) and `site_protection` (a
  site's).
- `equations`: which sums say more than statistics of the pooled rows; `reasons`: why a site does not join.
- `disclosure`: what left the sites; `fingerprint`: which computation stored rounds belong to.
"""
