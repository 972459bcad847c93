"""Sites and a coordinator that run apart and exchange files.

- `description`: what a study is, signed by its coordinator; `preparation`: a site's rows as the study wants
  them, checked before anything is summed.
- `envelopes`: the files that travel (`*.polydag`), signed, encrypted, and checked before they are read;
  `packing`: messages as bytes.
- `learning`: a learner over sites that are elsewhere, as one program of the protocol.
- `site` and `coordinator`: the endpoints, `receive(bytes) -> files`. All state is on the disk before anything
  leaves, so a process may be killed at any moment, and any transport can carry the bytes.
"""
