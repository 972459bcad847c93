"""A site's side of masked sums (after Bonawitz et al. 2017): keys, masks, and what it takes to open a sum.

A round's message is `x_u + Σ_v ± PRG(s_uv)` modulo 2^64 (or a wider ring): masks of pairs of sites cancel in
the sum. The stream of a pair comes from the two sites' X25519 secret by HKDF, another one every round.

Where drop-outs are to be recovered, `PRG(b_u)` is added, with a fresh `b_u` every round. Before a block of
rounds each site shares out two secrets a round (Shamir): `b_u`, and a key `k_u` under which the coordinator
holds the round's seeds `s_uv`. To open a round, sites hand over their shares of `b_u` for every site in the
sum and of `k_u` for every site that dropped out. Never both for one site: `b_u` and all `s_uv` together are
its mask. A key of a pair is never given away, so no round says anything about another.

State is a mapping of words and arrays, so that it can be saved as it is. Functions return a new one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from numpy.typing import NDArray

from polydag.errors import DataError
from polydag.privacy.masking import shamir
from polydag.privacy.masking.agreement import BLOCK, Terms
from polydag.privacy.masking.identities import Directory, Identity, is_signed, shared_secret, study_key
from polydag.privacy.masking.keystreams import SEED, canonical, derive, fresh, words, words_at, xored
from polydag.privacy.masking.ring import Words, add_into

Memory = Mapping[str, Any]
Bytes = NDArray[np.uint8]
Sealed = dict[str, NDArray[Any]]

KEY, SIGNATURE = 32, 64  # bytes
PARCEL = 4 * BLOCK * SEED + 16  # shares of two secrets for each round of a block, and the seal


def join(
    terms: Terms, name: str, identity: Identity, coordinator: bytes | None = None
) -> tuple[Memory, Sealed]:
    """Make a key for this study; give its public part, signed together with the terms.

    With the coordinator's key, messages to it can be tagged.
    """
    private, public = study_key()
    memory: dict[str, Any] = {"terms": terms.as_words(), "name": name, "private": _bytes(private)}
    if coordinator is not None:
        memory["tag"] = _bytes(derive(shared_secret(private, coordinator), terms.study, name, "tags"))
    return memory, {
        "key": _bytes(public),
        "signature": _bytes(identity.sign(_signed_key(_mark(terms), name, public))),
    }


def _signed_key(terms: str, name: str, public: bytes) -> bytes:
    return canonical("key", terms, name, public.hex())


def _mark(terms: Terms) -> str:
    return hashlib.sha256(canonical("terms", terms.as_words())).hexdigest()


def admit(memory: Memory, keys: Bytes, signatures: Bytes, directory: Directory) -> Memory:
    """Take in everyone's keys; one that its owner has not signed is refused, with the owner named."""
    terms, name = Terms.from_words(memory["terms"]), str(memory["name"])
    members = terms.members
    if keys.shape != (len(members), KEY) or signatures.shape != (len(members), SIGNATURE):
        raise DataError("The coordinator's list of keys does not fit the list of members.")
    roster = hashlib.sha256(canonical("roster", memory["terms"]) + keys.tobytes()).hexdigest()
    partners, mark = terms.partners(name, roster), _mark(terms)
    roots = np.empty((len(partners), 32), dtype=np.uint8)
    for row, other in enumerate(partners):
        place = members.index(other)
        public = keys[place].tobytes()
        text = _signed_key(mark, other, public)
        if other not in directory or not is_signed(directory[other], signatures[place].tobytes(), text):
            raise DataError(f"The key in the name of {other} is not signed by {other}: it may be forged.")
        # Who saw another list of members or keys has other masks, which do not cancel: nothing can be read.
        pair = sorted((name, other))
        secret = shared_secret(memory["private"].tobytes(), public)
        roots[row] = _bytes(derive(secret, terms.study, roster, pair))
    # Of two sites the one that stands first adds their mask, the other one subtracts it.
    subtracts = [members.index(other) < members.index(name) for other in partners]
    agreed = {"roster": roster, "partners": list(partners), "subtracts": subtracts, "roots": roots}
    masks = np.array([_bytes(derive(root.tobytes(), "masks", size=SEED)) for root in roots])
    return {**memory, **agreed, "masks": masks, "block": -1, "masked": 0}


def _in_block(memory: Memory, number: int) -> Memory:
    """The state with the seeds of a block of rounds: one key a pair and block, one seed a round."""
    if memory["block"] == number:
        return memory
    seeds = np.empty((BLOCK, len(memory["partners"]), SEED), dtype=np.uint8)
    for row, root in enumerate(memory["roots"]):
        key = derive(root.tobytes(), "masks", number, size=SEED)
        seeds[:, row] = words(key, BLOCK * SEED // 8).view(np.uint8).reshape(BLOCK, SEED)
    return {**memory, "block": number, "seeds": seeds}


def block_of(round_: int) -> int:
    """The block that a round belongs to; rounds are counted from 1."""
    return (round_ - 1) // BLOCK


def deal(memory: Memory, number: int) -> tuple[Memory, Sealed]:
    """Share out a block's secrets: a parcel for every other site, locked seeds for the coordinator."""
    terms, name = Terms.from_words(memory["terms"]), str(memory["name"])
    memory = _in_block(memory, number)
    secrets = np.frombuffer(fresh(2 * BLOCK * SEED), dtype=np.uint8).reshape(2, BLOCK, SEED)
    shares = shamir.split(secrets.view("<u2"), terms.threshold, len(terms.members))
    parcels = []
    for row, other in enumerate(memory["partners"]):
        share = shares[terms.members.index(other)].astype("<u4").tobytes()
        parcels.append(_sealed(memory, row, number, name, other, share))
    seeds = memory["seeds"]
    locked = np.empty((BLOCK, seeds[0].size), dtype=np.uint8)
    for k in range(BLOCK):
        locked[k] = xored(secrets[1, k].tobytes(), seeds[k].reshape(-1))
    held = np.zeros((len(terms.members), *shares.shape[1:]), dtype=np.uint32)
    held[terms.members.index(name)] = shares[terms.members.index(name)]
    memory = {**memory, "own": secrets[0], "held": held, "holds": [name], "opened": {}}
    return memory, {"parcels": np.array(parcels), "locked": locked}


def _sealed(memory: Memory, row: int, number: int, sender: str, recipient: str, text: bytes) -> Bytes:
    key = derive(memory["roots"][row].tobytes(), "parcels", sender)  # another one for each direction
    about = canonical(number, sender, recipient)
    return _bytes(ChaCha20Poly1305(key).encrypt(number.to_bytes(12, "big"), text, about))


def accept(memory: Memory, senders: Sequence[str], parcels: Bytes) -> Memory:
    """Take in the others' shares; a parcel that was not sealed by its sender for here and now is refused."""
    terms, name, number = Terms.from_words(memory["terms"]), str(memory["name"]), int(memory["block"])
    held = memory["held"].copy()
    for sender, parcel in zip(senders, parcels, strict=True):
        if sender not in memory["partners"]:
            raise DataError(f"Shares came in the name of {sender}, who is not among the sites.")
        row = memory["partners"].index(sender)
        key = derive(memory["roots"][row].tobytes(), "parcels", sender)
        try:
            text = ChaCha20Poly1305(key).decrypt(
                number.to_bytes(12, "big"), parcel.tobytes(), canonical(number, sender, name)
            )
        except InvalidTag:
            raise DataError(
                f"The shares in the name of {sender} do not open: they were changed on the way, belong to "
                "another block of rounds, or are not from there."
            ) from None
        held[terms.members.index(sender)] = np.frombuffer(text, dtype="<u4").reshape(held.shape[1:])
    return {**memory, "held": held, "holds": [*memory["holds"], *senders]}


def mask(memory: Memory, round_: int, parts: Sequence[Words], over: Sequence[str]) -> Memory:
    """Add the round's masks to numbers of the ring: `parts` are arrays of shape `(limbs, entries)`.

    They are changed in place. A round is masked once: two messages under one mask would show their
    difference.
    """
    recover, members = memory["terms"]["recover"], memory["terms"]["members"]
    if round_ <= int(memory["masked"]):
        raise DataError(f"Round {round_} has been masked already; what was sent can only be sent again.")
    if recover and block_of(round_) != memory["block"]:
        raise DataError(f"No secrets have been shared out for round {round_}.")
    memory = {**memory, "masked": round_}
    if recover:
        if lacking := [site for site in over if site not in memory["holds"]]:
            raise DataError(f"No shares have come from {', '.join(lacking)}: the round could not be opened.")
    elif list(over) != members:
        raise DataError("This study sums over all its members only.")
    included = set(over)
    for row, (other, subtract) in enumerate(zip(memory["partners"], memory["subtracts"], strict=True)):
        if other in included:
            add_stream(parts, pair_stream(memory, row, round_, parts), subtract=subtract)
    if recover:
        apply(parts, memory["own"][(round_ - 1) % BLOCK].tobytes())
    return memory


def pair_stream(memory: Memory, row: int, round_: int, parts: Sequence[Words]) -> Words:
    """The words that a site and one of its partners have in common for a round.

    Where a round may have to be opened without one of them, they come from a seed of this round alone, which
    can be given away; else from the pair's key, which never leaves.
    """
    count = sum(part.size for part in parts)
    if memory["terms"]["recover"]:
        return words(memory["seeds"][(round_ - 1) % BLOCK, row].tobytes(), count)
    return words_at(memory["masks"][row].tobytes(), round_, count)


def apply(parts: Sequence[Words], seed: bytes, *, subtract: bool = False) -> None:
    """Add or subtract the mask of one seed in place."""
    add_stream(parts, words(seed, sum(part.size for part in parts)), subtract=subtract)


def add_stream(parts: Sequence[Words], drawn: Words, *, subtract: bool = False) -> None:
    """Add or subtract a stream in place, over all parts in their order."""
    start = 0
    for part in parts:
        add_into(part, drawn[start : start + part.size].reshape(part.shape), subtract=subtract)
        start += part.size


def sign_list(memory: Memory, identity: Identity, round_: int, sites: Sequence[str]) -> tuple[Memory, Bytes]:
    """Put a signature under the list of those whose numbers came in; another list is not signed any more."""
    memory = _committed(memory, round_, sites)
    return memory, _bytes(identity.sign(_signed_list(memory, round_, sites)))


def _signed_list(memory: Memory, round_: int, sites: Sequence[str]) -> bytes:
    return canonical("list", memory["terms"], memory["roster"], round_, list(sites))


def _committed(memory: Memory, round_: int, sites: Sequence[str]) -> Memory:
    before = memory["opened"].get(str(round_))
    if before is not None and list(before) != list(sites):
        raise DataError(
            f"The coordinator gave two different lists of sites for round {round_}: {', '.join(before)}; "
            f"then {', '.join(sites)}. With shares for both, single sites could be read."
        )
    return {**memory, "opened": {**memory["opened"], str(round_): list(sites)}}


def open_round(
    memory: Memory,
    round_: int,
    over: Sequence[str],
    sites: Sequence[str],
    signatures: Mapping[str, bytes],
    directory: Directory,
) -> tuple[Memory, NDArray[np.uint32]]:
    """The shares that open the sum over `sites` of a round in which `over` were asked, one row each.

    Where someone dropped out, `threshold` sites must have signed the very same list.
    """
    terms = Terms.from_words(memory["terms"])
    if not set(sites) <= set(over) <= set(terms.members) or len(set(sites)) != len(sites):
        raise DataError("The coordinator's list of sites is not a part of those who were asked.")
    if block_of(round_) != memory["block"]:
        raise DataError(f"Round {round_} is not of the block under way; its shares are gone.")
    if list(sites) != list(over):
        text = _signed_list(memory, round_, sites)
        for site, signature in signatures.items():
            if site not in directory or not is_signed(directory[site], signature, text):
                raise DataError(f"{site} has not signed this list of sites; the coordinator says it has.")
        if len(set(signatures) & set(terms.members)) < terms.threshold:
            raise DataError(
                f"Only {len(signatures)} sites have signed the list of those in the sum; {terms.threshold} "
                "must."
            )
    memory = _committed(memory, round_, sites)
    included = set(sites)
    step = (round_ - 1) % BLOCK
    places = [terms.members.index(site) for site in over]
    kinds = [0 if site in included else 1 for site in over]
    return memory, memory["held"][places, kinds, step]


def tag(key: bytes, number: int, texts: Sequence[Any]) -> bytes:
    """A mark that only the owner of a key can put under texts (AES-GMAC); `number` may not come twice."""
    encryptor = Cipher(algorithms.AES(key), modes.GCM(number.to_bytes(12, "big"))).encryptor()
    for text in texts:
        encryptor.authenticate_additional_data(text)
    encryptor.finalize()
    return encryptor.tag


def _bytes(value: bytes) -> Bytes:
    return np.frombuffer(value, dtype=np.uint8)
