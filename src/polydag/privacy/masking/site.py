"""A site's side of masked sums (after Bonawitz et al. 2017): keys, masks, and shares that open a sum.

The message of a round is `x_u + Σ_v ± PRG(s_uv)` modulo 2^64 (or a wider ring): the masks of pairs of sites
cancel in the sum. The stream of a pair is derived from the X25519 secret of the two sites with HKDF, and
bound to the hash of the question that a site answers: sites that were asked different questions (other sites
in the sum, other parameters) add masks that do not cancel, so a coordinator that treats sites differently
reads nothing.

Where sums must survive drop-outs, `PRG(b_u)` is added, with a fresh `b_u` every round. Before a block of
rounds each site distributes Shamir shares of two secrets per round: `b_u`, and a key `k_u` that encrypts the
seeds `s_uv` of the round, which the coordinator holds. To open a round, sites hand over their shares of `b_u`
for every site in the sum and of `k_u` for every site that dropped out, never both for one site: `b_u` and all
`s_uv` together are its mask. A share of `b_u` is encrypted under a pad that site u has sent with its numbers
and that is bound to the question as well: it opens only if u answered the question that the helper knows of.
The key of a pair is never revealed, so no round says anything about another.

State is a mapping of words and arrays, so it can be saved as it is. Functions return a new one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from numpy.typing import NDArray

from polydag.errors import DataError
from polydag.privacy.masking import shamir
from polydag.privacy.masking.agreement import BLOCK, Agreement
from polydag.privacy.masking.identities import Directory, Identity, is_signed, shared_secret, study_key
from polydag.privacy.masking.keystreams import (
    SEED,
    bound_key,
    canonical,
    derive_key,
    keystream_words,
    random_bytes,
    xor_keystream,
)
from polydag.privacy.masking.masks import add_stream, apply_mask
from polydag.privacy.masking.ring import Words

Memory = Mapping[str, Any]
Bytes = NDArray[np.uint8]
Sealed = dict[str, NDArray[Any]]

KEY, SIGNATURE, PAD = 32, 64, 32  # bytes
HEAD = 40  # bytes: the number of entries of a ledger, and the hash of the last one
PARCEL = 4 * BLOCK * SEED + 16  # shares of two secrets for each round of a block, and the authentication tag
_LAST_BLOCK = 2**31 // BLOCK


def join(
    agreement: Agreement, name: str, identity: Identity, head: bytes = bytes(HEAD)
) -> tuple[Memory, Sealed]:
    """Make a key for this study; send its public part, signed together with the agreement.

    The head of the site's ledger is signed with it. The other sites keep it, so that a ledger that was cut or
    rewritten later contradicts theirs.
    """
    private, public = study_key()
    memory: dict[str, Any] = {"agreement": agreement.to_json(), "name": name, "private": _bytes(private)}
    text = _signed_key(_agreement_hash(agreement), name, public, head)
    return memory, {
        "key": _bytes(public),
        "head": _bytes(head),
        "signature": _bytes(identity.sign(text)),
    }


def _signed_key(agreement: str, name: str, public: bytes, head: bytes) -> bytes:
    return canonical("key", agreement, name, public.hex(), head.hex())


def _agreement_hash(agreement: Agreement) -> str:
    return hashlib.sha256(canonical("agreement", agreement.to_json())).hexdigest()


def admit(memory: Memory, keys: Bytes, signatures: Bytes, heads: Bytes, directory: Directory) -> Memory:
    """Accept everyone's keys; a key that its owner has not signed is refused, and the owner is named."""
    agreement, name = Agreement.from_json(memory["agreement"]), str(memory["name"])
    if "roster" in memory:
        raise DataError("The keys of this study have been exchanged already.")
    all_sites = agreement.all_sites
    for array, width in ((keys, KEY), (signatures, SIGNATURE), (heads, HEAD)):
        if array.shape != (len(all_sites), width) or array.dtype != np.uint8:
            raise DataError("The coordinator's list of keys does not fit the list of sites.")
    told = canonical("roster", memory["agreement"]) + keys.tobytes() + heads.tobytes()
    roster = hashlib.sha256(told).hexdigest()
    partners, agreed_on = agreement.partners(name, roster), _agreement_hash(agreement)
    roots = np.empty((len(partners), 32), dtype=np.uint8)
    for row, other in enumerate(partners):
        place = all_sites.index(other)
        public = keys[place].tobytes()
        text = _signed_key(agreed_on, other, public, heads[place].tobytes())
        if other not in directory or not is_signed(directory[other], signatures[place].tobytes(), text):
            raise DataError(f"The key in the name of {other} is not signed by {other}: it may be forged.")
        # A site that saw other sites or keys derives other masks, which do not cancel: nothing can be read.
        pair = sorted((name, other))
        secret = shared_secret(memory["private"].tobytes(), public)
        roots[row] = _bytes(derive_key(secret, agreement.study, roster, pair))
    # Of two sites the first one adds their mask, the other one subtracts it.
    subtracts = [all_sites.index(other) < all_sites.index(name) for other in partners]
    agreed = {"roster": roster, "partners": list(partners), "subtracts": subtracts, "roots": roots}
    masks = np.array([_bytes(derive_key(root.tobytes(), "masks", size=SEED)) for root in roots])
    return {**memory, **agreed, "masks": masks, "block": -1, "masked": 0, "rounds": {}}


def _in_block(memory: Memory, number: int) -> Memory:
    """The state with the seeds of a block of rounds: one key per pair and block, one seed per round."""
    if memory["block"] == number:
        return memory
    seeds = np.empty((BLOCK, len(memory["partners"]), SEED), dtype=np.uint8)
    pads = np.empty((len(memory["partners"]), 32), dtype=np.uint8)
    for row, root in enumerate(memory["roots"]):
        key = derive_key(root.tobytes(), "masks", number, size=SEED)
        seeds[:, row] = keystream_words(key, BLOCK * SEED // 8).view(np.uint8).reshape(BLOCK, SEED)
        pads[row] = _bytes(derive_key(root.tobytes(), "pads", number))
    return {**memory, "block": number, "seeds": seeds, "pads": pads}


def block_of(round_: int) -> int:
    """The block that a round belongs to; rounds are counted from 1."""
    return (round_ - 1) // BLOCK


def deal(memory: Memory, number: int) -> tuple[Memory, Sealed]:
    """Distribute the secrets of a block: shares for every other site, encrypted seeds for the coordinator.

    With them go short hashes of the secrets, by which the coordinator notices a wrong share.
    """
    agreement, name = Agreement.from_json(memory["agreement"]), str(memory["name"])
    if not int(memory["block"]) < number < _LAST_BLOCK:
        raise DataError(f"Secrets of block {number} have been distributed already, or are out of range.")
    memory = _in_block(memory, number)
    secrets = np.frombuffer(random_bytes(2 * BLOCK * SEED), dtype=np.uint8).reshape(2, BLOCK, SEED)
    shares = shamir.split(secrets.view("<u2"), agreement.quorum, len(agreement.all_sites))
    parcels = []
    for row, other in enumerate(memory["partners"]):
        share = shares[agreement.all_sites.index(other)].astype("<u4").tobytes()
        parcels.append(_sealed(memory, row, number, name, other, share))
    seeds = memory["seeds"]
    locked = np.empty((BLOCK, seeds[0].size), dtype=np.uint8)
    for k in range(BLOCK):
        locked[k] = xor_keystream(secrets[1, k].tobytes(), seeds[k].reshape(-1))
    held = np.zeros((len(agreement.all_sites), *shares.shape[1:]), dtype=np.uint32)
    held[agreement.all_sites.index(name)] = shares[agreement.all_sites.index(name)]
    checks = np.array([[_bytes(check_value(one.tobytes())) for one in kind] for kind in secrets])
    memory = {**memory, "own": secrets[0], "held": held, "holds": [name], "rounds": {}}
    return memory, {"parcels": np.array(parcels), "locked": locked, "checks": checks}


def check_value(secret: bytes) -> bytes:
    """By which a secret of 128 random bits is recognised, and which says nothing else about it."""
    return hashlib.sha256(b"polydag check" + secret).digest()[:SEED]


def _sealed(memory: Memory, row: int, number: int, sender: str, recipient: str, text: bytes) -> Bytes:
    key = derive_key(memory["roots"][row].tobytes(), "parcels", sender)  # a different one for each direction
    about = canonical(number, sender, recipient)
    return _bytes(ChaCha20Poly1305(key).encrypt(number.to_bytes(12, "big"), text, about))


def accept(memory: Memory, senders: Sequence[str], parcels: Bytes) -> Memory:
    """Accept the others' shares; raises where the sender did not seal a parcel for this site and block."""
    agreement, name, number = (
        Agreement.from_json(memory["agreement"]),
        str(memory["name"]),
        int(memory["block"]),
    )
    if len(set(senders)) != len(senders) or parcels.shape != (len(senders), PARCEL):
        raise DataError("The coordinator's parcels do not fit the list of their senders.")
    held = memory["held"].copy()
    for sender, parcel in zip(senders, parcels, strict=True):
        if sender not in memory["partners"]:
            raise DataError(f"Shares came in the name of {sender}, which is not one of the sites.")
        row = memory["partners"].index(sender)
        key = derive_key(memory["roots"][row].tobytes(), "parcels", sender)
        try:
            text = ChaCha20Poly1305(key).decrypt(
                number.to_bytes(12, "big"), parcel.tobytes(), canonical(number, sender, name)
            )
        except InvalidTag:
            raise DataError(
                f"The shares in the name of {sender} cannot be decrypted: they were changed on the way, "
                "belong to another block of rounds, or come from someone else."
            ) from None
        held[agreement.all_sites.index(sender)] = np.frombuffer(text, dtype="<u4").reshape(held.shape[1:])
    return {**memory, "held": held, "holds": [*memory["holds"], *senders]}


def mask(
    memory: Memory, round_: int, parts: Sequence[Words], over: Sequence[str], question: bytes
) -> tuple[Memory, Bytes | None]:
    """Add the masks of a round to `parts`, arrays of shape `(limbs, entries)` in the ring, in place.

    A round is masked only once: two messages under one mask would reveal their difference. `over` and the
    question (its hash) are kept: the round is opened for them only. Returns the pads of the other sites'
    shares, where the round can be opened.
    """
    recover, all_sites = memory["agreement"]["recover"], memory["agreement"]["all_sites"]
    name = str(memory["name"])
    if round_ <= int(memory["masked"]):
        raise DataError(f"Round {round_} has been masked already; only the same message can be sent again.")
    if recover and block_of(round_) != memory["block"]:
        raise DataError(f"No secrets have been distributed for round {round_}.")
    if name not in over:
        raise DataError("It is asked for a sum that it is not part of.")
    if recover:
        if lacking := [site for site in over if site not in memory["holds"]]:
            raise DataError(
                f"No shares have arrived from {', '.join(lacking)}: the round could not be opened."
            )
        memory = _committed(memory, round_, over=list(over), question=question.hex())
    elif list(over) != all_sites:
        raise DataError("This study sums over all its sites only.")
    memory = {**memory, "masked": round_}
    included = set(over)
    for row, (other, subtract) in enumerate(zip(memory["partners"], memory["subtracts"], strict=True)):
        if other in included:
            add_stream(parts, pair_stream(memory, row, round_, parts, question), subtract=subtract)
    if not recover:
        return memory, None
    apply_mask(parts, memory["own"][(round_ - 1) % BLOCK].tobytes())
    about = _pad_of(name, round_, question)
    return memory, np.array([_bytes(bound_key(key.tobytes(), about, PAD)) for key in memory["pads"]])


def pair_stream(memory: Memory, row: int, round_: int, parts: Sequence[Words], question: bytes) -> Words:
    """The words that a site and one of its partners share for a question.

    Where a round may have to be opened without one of them, they come from a seed for this round alone, which
    can be revealed; otherwise from the key of the pair, which never is.
    """
    recover = memory["agreement"]["recover"]
    secret = memory["seeds"][(round_ - 1) % BLOCK, row] if recover else memory["masks"][row]
    return keystream_words(bound_key(secret.tobytes(), question), sum(part.size for part in parts))


def _pad_of(owner: str, round_: int, question: bytes) -> bytes:
    """To what the pad is bound that encrypts a partner's share of the owner's secret."""
    return b"pad" + round_.to_bytes(8, "big") + question + owner.encode()


def sign_list(
    memory: Memory,
    identity: Identity,
    round_: int,
    over: Sequence[str],
    sites: Sequence[str],
    question: bytes,
) -> tuple[Memory, Bytes]:
    """Sign the list of sites whose numbers arrived; a different list for this round is refused later on."""
    memory = _committed(memory, round_, over=list(over), question=question.hex(), list=list(sites))
    return memory, _bytes(identity.sign(_signed_list(memory, round_, over, sites, question)))


def _signed_list(
    memory: Memory, round_: int, over: Sequence[str], sites: Sequence[str], question: bytes
) -> bytes:
    about = (memory["agreement"], memory["roster"], round_, list(over), list(sites), question.hex())
    return canonical("list", *about)


def _committed(memory: Memory, round_: int, **facts: Any) -> Memory:
    """The state with what a round is about; a round is about one question, one set of sites and one list."""
    before = memory["rounds"].get(str(round_), {})
    for name, value in facts.items():
        if name in before and before[name] != value:
            what = {"over": "sets of sites", "question": "questions", "list": "lists of sites"}[name]
            raise DataError(
                f"The coordinator gave two different {what} for round {round_}. With shares for both, it "
                "could read single sites."
            )
    return {**memory, "rounds": {**memory["rounds"], str(round_): {**before, **facts}}}


def open_round(
    memory: Memory,
    round_: int,
    over: Sequence[str],
    sites: Sequence[str],
    question: bytes,
    signatures: Mapping[str, bytes],
    directory: Directory,
) -> tuple[Memory, NDArray[np.uint32]]:
    """The shares that open the sum over `sites` of a round in which `over` were asked, one row for each.

    Where a site dropped out, `quorum` sites must have signed this list. A share of the secret of a site in
    the sum is encrypted under the pad of this question.
    """
    agreement, name = Agreement.from_json(memory["agreement"]), str(memory["name"])
    if not agreement.recover:
        raise DataError("No sum of this study is opened: the masks cancel in the sum over all sites.")
    if not set(sites) <= set(over) <= set(agreement.all_sites) or len(set(sites)) != len(sites):
        raise DataError("The coordinator's list of sites is not a subset of those that were asked.")
    if block_of(round_) != memory["block"]:
        raise DataError(f"Round {round_} does not belong to the current block; its shares are gone.")
    if list(sites) != list(over):
        text = _signed_list(memory, round_, over, sites, question)
        for site, signature in signatures.items():
            if site not in directory or not is_signed(directory[site], signature, text):
                raise DataError(
                    f"{site} has not signed this list of sites, although the coordinator says so."
                )
        if len(set(signatures) & set(agreement.all_sites)) < agreement.quorum:
            raise DataError(
                f"Only {len(signatures)} sites have signed the list of those in the sum; {agreement.quorum} "
                "are needed."
            )
    memory = _committed(memory, round_, over=list(over), question=question.hex(), list=list(sites))
    memory = {**memory, "masked": max(int(memory["masked"]), round_)}
    included = set(sites)
    step = (round_ - 1) % BLOCK
    places = [agreement.all_sites.index(site) for site in over]
    kinds = [0 if site in included else 1 for site in over]
    shares = memory["held"][places, kinds, step]
    partner = {site: row for row, site in enumerate(memory["partners"])}
    locked = [row for row, site in enumerate(over) if site in included and site != name]
    pads = (
        bound_key(memory["pads"][partner[over[row]]].tobytes(), _pad_of(over[row], round_, question), PAD)
        for row in locked
    )
    shares[locked] ^= np.frombuffer(b"".join(pads), dtype="<u4").reshape(len(locked), -1)
    return memory, shares


def _bytes(value: bytes) -> Bytes:
    return np.frombuffer(value, dtype=np.uint8)
