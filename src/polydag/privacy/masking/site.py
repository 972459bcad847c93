"""A site's side of masked sums (after Bonawitz et al. 2017): keys, masks, and shares that open a sum.

The message of a round is `x_u + Σ_v ± PRG(s_uv)` modulo 2^64 (or a wider ring): the masks of pairs of sites
cancel in the sum. The stream of a pair is derived from the X25519 secret of the two sites with HKDF, a new
one for every round.

Where sums must survive drop-outs, `PRG(b_u)` is added, with a fresh `b_u` every round. Before a block of
rounds each site distributes Shamir shares of two secrets per round: `b_u`, and a key `k_u` that encrypts the
seeds `s_uv` of the round, which the coordinator holds. To open a round, sites hand over their shares of `b_u`
for every site in the sum and of `k_u` for every site that dropped out, never both for one site: `b_u` and all
`s_uv` together are its mask. The key of a pair is never revealed, so no round says anything about another.

State is a mapping of words and arrays, so it can be saved as it is. Functions return a new one.
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
from polydag.privacy.masking.agreement import BLOCK, Agreement
from polydag.privacy.masking.identities import Directory, Identity, is_signed, shared_secret, study_key
from polydag.privacy.masking.keystreams import (
    SEED,
    canonical,
    derive_key,
    keystream_words,
    keystream_words_at,
    random_bytes,
    xor_keystream,
)
from polydag.privacy.masking.masks import add_stream, apply_mask
from polydag.privacy.masking.ring import Words

Memory = Mapping[str, Any]
Bytes = NDArray[np.uint8]
Sealed = dict[str, NDArray[Any]]

KEY, SIGNATURE = 32, 64  # bytes
PARCEL = 4 * BLOCK * SEED + 16  # shares of two secrets for each round of a block, and the authentication tag


def join(
    agreement: Agreement, name: str, identity: Identity, coordinator: bytes | None = None
) -> tuple[Memory, Sealed]:
    """Make a key for this study; send its public part, signed together with the agreement.

    With the coordinator's public key, messages to it can be tagged.
    """
    private, public = study_key()
    memory: dict[str, Any] = {"agreement": agreement.to_json(), "name": name, "private": _bytes(private)}
    if coordinator is not None:
        memory["tag"] = _bytes(derive_key(shared_secret(private, coordinator), agreement.study, name, "tags"))
    return memory, {
        "key": _bytes(public),
        "signature": _bytes(identity.sign(_signed_key(_agreement_hash(agreement), name, public))),
    }


def _signed_key(agreement: str, name: str, public: bytes) -> bytes:
    return canonical("key", agreement, name, public.hex())


def _agreement_hash(agreement: Agreement) -> str:
    return hashlib.sha256(canonical("agreement", agreement.to_json())).hexdigest()


def admit(memory: Memory, keys: Bytes, signatures: Bytes, directory: Directory) -> Memory:
    """Accept everyone's keys; a key that its owner has not signed is refused, and the owner is named."""
    agreement, name = Agreement.from_json(memory["agreement"]), str(memory["name"])
    all_sites = agreement.all_sites
    if keys.shape != (len(all_sites), KEY) or signatures.shape != (len(all_sites), SIGNATURE):
        raise DataError("The coordinator's list of keys does not fit the list of sites.")
    roster = hashlib.sha256(canonical("roster", memory["agreement"]) + keys.tobytes()).hexdigest()
    partners, agreed_on = agreement.partners(name, roster), _agreement_hash(agreement)
    roots = np.empty((len(partners), 32), dtype=np.uint8)
    for row, other in enumerate(partners):
        place = all_sites.index(other)
        public = keys[place].tobytes()
        text = _signed_key(agreed_on, other, public)
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
    return {**memory, **agreed, "masks": masks, "block": -1, "masked": 0}


def _in_block(memory: Memory, number: int) -> Memory:
    """The state with the seeds of a block of rounds: one key per pair and block, one seed per round."""
    if memory["block"] == number:
        return memory
    seeds = np.empty((BLOCK, len(memory["partners"]), SEED), dtype=np.uint8)
    for row, root in enumerate(memory["roots"]):
        key = derive_key(root.tobytes(), "masks", number, size=SEED)
        seeds[:, row] = keystream_words(key, BLOCK * SEED // 8).view(np.uint8).reshape(BLOCK, SEED)
    return {**memory, "block": number, "seeds": seeds}


def block_of(round_: int) -> int:
    """The block that a round belongs to; rounds are counted from 1."""
    return (round_ - 1) // BLOCK


def deal(memory: Memory, number: int) -> tuple[Memory, Sealed]:
    """Distribute the secrets of a block: shares for every other site, encrypted seeds for the coordinator."""
    agreement, name = Agreement.from_json(memory["agreement"]), str(memory["name"])
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
    memory = {**memory, "own": secrets[0], "held": held, "holds": [name], "opened": {}}
    return memory, {"parcels": np.array(parcels), "locked": locked}


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


def mask(memory: Memory, round_: int, parts: Sequence[Words], over: Sequence[str]) -> Memory:
    """Add the masks of a round to `parts`, arrays of shape `(limbs, entries)` in the ring, in place.

    A round is masked only once: two messages under one mask would reveal their difference.
    """
    recover, all_sites = memory["agreement"]["recover"], memory["agreement"]["all_sites"]
    if round_ <= int(memory["masked"]):
        raise DataError(f"Round {round_} has been masked already; only the same message can be sent again.")
    if recover and block_of(round_) != memory["block"]:
        raise DataError(f"No secrets have been distributed for round {round_}.")
    memory = {**memory, "masked": round_}
    if recover:
        if lacking := [site for site in over if site not in memory["holds"]]:
            raise DataError(
                f"No shares have arrived from {', '.join(lacking)}: the round could not be opened."
            )
    elif list(over) != all_sites:
        raise DataError("This study sums over all its sites only.")
    included = set(over)
    for row, (other, subtract) in enumerate(zip(memory["partners"], memory["subtracts"], strict=True)):
        if other in included:
            add_stream(parts, pair_stream(memory, row, round_, parts), subtract=subtract)
    if recover:
        apply_mask(parts, memory["own"][(round_ - 1) % BLOCK].tobytes())
    return memory


def pair_stream(memory: Memory, row: int, round_: int, parts: Sequence[Words]) -> Words:
    """The words that a site and one of its partners share for a round.

    Where a round may have to be opened without one of them, they come from a seed for this round alone, which
    can be revealed; otherwise from the key of the pair, which never is.
    """
    count = sum(part.size for part in parts)
    if memory["agreement"]["recover"]:
        return keystream_words(memory["seeds"][(round_ - 1) % BLOCK, row].tobytes(), count)
    return keystream_words_at(memory["masks"][row].tobytes(), round_, count)


def sign_list(memory: Memory, identity: Identity, round_: int, sites: Sequence[str]) -> tuple[Memory, Bytes]:
    """Sign the list of sites whose numbers arrived; a different list for this round is refused later on."""
    memory = _committed(memory, round_, sites)
    return memory, _bytes(identity.sign(_signed_list(memory, round_, sites)))


def _signed_list(memory: Memory, round_: int, sites: Sequence[str]) -> bytes:
    return canonical("list", memory["agreement"], memory["roster"], round_, list(sites))


def _committed(memory: Memory, round_: int, sites: Sequence[str]) -> Memory:
    before = memory["opened"].get(str(round_))
    if before is not None and list(before) != list(sites):
        raise DataError(
            f"The coordinator gave two different lists of sites for round {round_}: {', '.join(before)}; "
            f"then {', '.join(sites)}. With shares for both, it could read single sites."
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
    """The shares that open the sum over `sites` of a round in which `over` were asked, one row for each.

    Where a site dropped out, `quorum` sites must have signed this list.
    """
    agreement = Agreement.from_json(memory["agreement"])
    if not set(sites) <= set(over) <= set(agreement.all_sites) or len(set(sites)) != len(sites):
        raise DataError("The coordinator's list of sites is not a subset of those that were asked.")
    if block_of(round_) != memory["block"]:
        raise DataError(f"Round {round_} does not belong to the current block; its shares are gone.")
    if list(sites) != list(over):
        text = _signed_list(memory, round_, sites)
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
    memory = _committed(memory, round_, sites)
    included = set(sites)
    step = (round_ - 1) % BLOCK
    places = [agreement.all_sites.index(site) for site in over]
    kinds = [0 if site in included else 1 for site in over]
    return memory, memory["held"][places, kinds, step]


def tag(key: bytes, number: int, texts: Sequence[Any]) -> bytes:
    """An authentication tag of texts that only the owner of a key can make (AES-GMAC).

    A `number` must not be used twice.
    """
    encryptor = Cipher(algorithms.AES(key), modes.GCM(number.to_bytes(12, "big"))).encryptor()
    for text in texts:
        encryptor.authenticate_additional_data(text)
    encryptor.finalize()
    return encryptor.tag


def _bytes(value: bytes) -> Bytes:
    return np.frombuffer(value, dtype=np.uint8)
