"""Files of a study, carried by NVIDIA FLARE.

The endpoints and what watches over them are those of an exchange folder (`polydag.deployment.watching`). Here
each side has an exchange folder of its own, and FLARE brings the files from one to the other, as opaque
bytes: FLARE's processes hold no rows, no keys of the study, and no state that would be missed.

- `provisioning`, `certificates`: the startup kits, with a TLS certificate for each party.
- `job`: what FLARE runs at the server and at the sites; `asking` (a controller), `answering` (an executor),
  `submitting` and `ending` (components of the server's and the sites' processes) are these classes.
- `relay`: the folders, as the classes above see them, which import nothing heavy.
- `processes`: FLARE's process at a party, started again whenever it ends, and ended with the command.
"""
