"""Verification of the proofs of single events (C2SP tlog-proof), without a network."""

from __future__ import annotations

import base64
import binascii
import hashlib
import importlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from ._types import VerificationEvent

PROOF_VERSION = "c2sp.org/tlog-proof@v1"

_MAX_PROOF = 128 << 10  # bytes; room for 16 signatures of any kind
_END_OF_TIME = 253402300800  # the first second that a date with four digits cannot express


class ProofError(Exception):
    """An event that is not proved."""

    reason: str
    """malformed_key (or quorum), malformed_proof, unknown_log (no given key of the log has signed), invalid_signature (of a given key),
    not_witnessed, not_included (the event is not the recorded one) or malformed_event (the log has recorded something else)."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"not proved: {message}")
        self.reason = reason


@dataclass(frozen=True)
class Seen:
    """The time at which a witness has seen a checkpoint."""

    name: str
    at: datetime


@dataclass(frozen=True)
class Proof:
    """A verified proof: the log has the event, unchanged since the earliest time of a witness."""

    event: VerificationEvent
    """The event as it was recorded: members that the API has gained since are missing."""

    origin: str
    """Name of the log."""

    size: int
    """Events that the checkpoint covers."""

    index: int
    """Index of the event."""

    recorded_at: str
    """When the log says that it recorded the event."""

    witnesses: tuple[Seen, ...]
    """The witnesses that have cosigned, in the order of their keys."""


@dataclass(frozen=True)
class _Key:
    name: str
    id: bytes
    key: bytes


@dataclass(frozen=True)
class _Checkpoint:
    origin: str
    size: int
    root: bytes
    text: str
    signatures: tuple[tuple[str, bytes], ...]

    def by(self, key: _Key) -> list[bytes]:
        """Returns the signatures with the name and the id of a key."""
        return [data[4:] for name, data in self.signatures if name == key.name and data[:4] == key.id]


def verify_event(
    proof: str,
    *,
    log: Sequence[str],
    witnesses: Sequence[str] = (),
    quorum: int = 0,
) -> Proof:
    """Verifies the proof of an event and returns the event that the proof has. Raises a ProofError unless it is proved.

    log has the keys of the log: one of them must have signed. witnesses has the keys of witnesses. Each is written as name+id+base64 (C2SP
    signed-note). quorum is the number of witnesses that must have cosigned; 0 means all. Signatures need the package cryptography,
    the extra opportunity-data[proof]: without it, RuntimeError is raised and nothing is proved.
    """
    valid = _verifier()
    log_keys = [_parse_key(text, 1) for text in log]
    witness_keys = _parse_witnesses(witnesses, quorum)
    index, path, leaf, checkpoint = _parse_proof(proof)
    _check_signed(checkpoint, log_keys, valid)
    seen = [Seen(key.name, times[0]) for key in witness_keys if (times := _seen(checkpoint, key, valid))]
    want = quorum or len(witness_keys)
    if len(seen) < want:
        message = f"{len(seen)} of the {len(witness_keys)} given witnesses have cosigned the checkpoint, want {want}"
        raise ProofError("not_witnessed", message)
    if not _included(hashlib.sha256(b"\0" + leaf).digest(), index, checkpoint.size, path, checkpoint.root):
        raise ProofError("not_included", "the event differs from the one that was recorded, or the proof is of another event")
    event, recorded_at = _parse_leaf(leaf)
    return Proof(event, checkpoint.origin, checkpoint.size, index, recorded_at, tuple(seen))


_Valid = Callable[[_Key, bytes, bytes], bool]


def _verifier() -> _Valid:
    """Returns a function that verifies an Ed25519 signature, which the standard library cannot."""
    try:
        ed25519: Any = importlib.import_module("cryptography.hazmat.primitives.asymmetric.ed25519")
        exceptions: Any = importlib.import_module("cryptography.exceptions")
    except ImportError as missing:
        text = "verifying needs the package cryptography, the extra opportunity-data[proof]: pip install cryptography"
        raise RuntimeError(text) from missing

    def valid(key: _Key, signature: bytes, message: bytes) -> bool:
        try:
            ed25519.Ed25519PublicKey.from_public_bytes(key.key).verify(signature, message)
        except (exceptions.InvalidSignature, ValueError):
            return False
        return True

    return valid


def _parse_key(text: str, kind: int) -> _Key:
    """Returns a verifier key of a kind: 1 for notes, 4 for cosignatures."""
    name, _, rest = text.partition("+")
    key_id, _, encoded = rest.partition("+")
    data = _decode(encoded)
    if not name or data is None or len(data) != 33 or data[0] != kind:
        raise ProofError("malformed_key", f'"{text}" is not an Ed25519 key of type {kind}, such as name+0badc0de+base64')
    digest = hashlib.sha256(f"{name}\n".encode() + data).digest()[:4]
    if key_id != digest.hex():
        raise ProofError("malformed_key", f'the id of the key "{text}" is not that of its name and key')
    return _Key(name, digest, data[1:])


def _parse_witnesses(texts: Sequence[str], quorum: int) -> list[_Key]:
    """Returns the keys of witnesses. A witness whose key is given twice would count twice, so that is an error."""
    keys: list[_Key] = []
    for key in (_parse_key(text, 4) for text in texts):
        if any(key.key == other.key for other in keys):
            raise ProofError("malformed_key", f"the key of the witness {key.name} is given twice")
        keys.append(key)
    if not 0 <= quorum <= len(keys):
        raise ProofError("malformed_key", f"the quorum is {quorum} and {len(keys)} witnesses are given")
    return keys


def _decode(text: str) -> bytes | None:
    """Returns the bytes of base64 that is in its one form."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if base64.b64encode(data).decode() == text else None


def _malformed(line: int, want: str) -> ProofError:
    """Returns the error of a line, which counts from 0."""
    return ProofError("malformed_proof", f"malformed proof: line {line + 1}: want {want}")


def _parse_proof(text: str) -> tuple[int, list[bytes], bytes, _Checkpoint]:
    """Parses a proof strictly: each has one form."""
    lines = _lines(text)
    if lines[:1] != [PROOF_VERSION]:
        raise _malformed(0, PROOF_VERSION)
    leaf = _decode(_at(lines, 1).removeprefix("extra "))
    if not _at(lines, 1).startswith("extra ") or leaf is None:
        raise _malformed(1, '"extra " and the event in base64')
    index = _size(_at(lines, 2).removeprefix("index "))
    if not _at(lines, 2).startswith("index ") or index is None:
        raise _malformed(2, '"index " and a decimal number')
    path: list[bytes] = []
    while _at(lines, 3 + len(path)):
        digest = _hash(lines[3 + len(path)])
        if digest is None or len(path) == 63:
            raise _malformed(3 + len(path), "at most 63 hashes, each base64 of 32 bytes, and an empty line")
        path.append(digest)
    return index, path, leaf, _parse_checkpoint(lines, 4 + len(path))


def _lines(text: str) -> list[str]:
    """Returns the lines of a text. Each ends with a line feed, the last one too."""
    lines = text.split("\n")
    for i, line in enumerate(lines):
        if re.search(r"[\x00-\x1f\ud800-\udfff]", line):
            raise _malformed(i, "text in UTF-8 without control characters")
    if (size := len(text.encode())) > _MAX_PROOF:
        raise ProofError("malformed_proof", f"malformed proof: it has {size} bytes, want at most {_MAX_PROOF}")
    if lines.pop():
        raise _malformed(len(lines), "a line feed at the end")
    return lines


def _at(lines: list[str], i: int) -> str:
    """Returns a line, or an empty one after the last."""
    return lines[i] if i < len(lines) else ""


def _parse_leaf(leaf: bytes) -> tuple[VerificationEvent, str]:
    """Returns the event of a leaf, and the time at which the log says that it recorded the event."""
    try:
        members = json.loads(leaf.decode(), parse_constant=_reject)
    except (ValueError, RecursionError):
        members = None
    if isinstance(members, dict):
        event, recorded_at = members.get("event"), members.get("recordedAt")
        if isinstance(event, dict) and isinstance(recorded_at, str) and _is_time(recorded_at):
            return cast(VerificationEvent, event), recorded_at
    raise ProofError("malformed_event", "the log has recorded something that is not an event")


def _reject(constant: str) -> None:
    """Raises for NaN and the infinities, which JSON lacks."""
    raise ValueError(constant)


def _is_time(text: str) -> bool:
    found = re.fullmatch(r"([0-9]{4}(?:-[0-9]{2}){2}T[0-9]{2}(?::[0-9]{2}){2})(?:\.[0-9]{1,6})?Z", text)
    try:
        return found is not None and bool(datetime.fromisoformat(found[1]))
    except ValueError:
        return False


def _parse_checkpoint(lines: list[str], first: int) -> _Checkpoint:
    """Parses the checkpoint that begins at a line."""
    origin, size, root = _at(lines, first), _size(_at(lines, first + 1)), _hash(_at(lines, first + 2))
    if not origin:
        raise _malformed(first, "the name of the log, which begins a checkpoint")
    if size is None:
        raise _malformed(first + 1, "the size of the checkpoint, a decimal number")
    if root is None:
        raise _malformed(first + 2, "the root hash of the checkpoint, base64 of 32 bytes")
    if lines[first + 3 : first + 4] != [""]:
        raise _malformed(first + 3, "an empty line after the three of the checkpoint")
    signatures: list[tuple[str, bytes]] = []
    for i in range(first + 4, max(len(lines), first + 5)):
        dash, _, rest = _at(lines, i).partition(" ")
        name, _, encoded = rest.partition(" ")
        data = _decode(encoded)
        if dash != "—" or not name or data is None or len(data) < 5:
            raise _malformed(i, "a signature: an em dash, a name and base64, separated by spaces")
        signatures.append((name, data))
    return _Checkpoint(origin, size, root, "".join(f"{line}\n" for line in lines[first : first + 3]), tuple(signatures))


def _size(text: str) -> int | None:
    """Returns a decimal number without leading zeros, below 2^53."""
    if not re.fullmatch("0|[1-9][0-9]{0,15}", text) or int(text) >= 1 << 53:
        return None
    return int(text)


def _hash(text: str) -> bytes | None:
    data = _decode(text)
    return data if data is not None and len(data) == 32 else None


def _check_signed(checkpoint: _Checkpoint, keys: list[_Key], valid: _Valid) -> None:
    """Raises unless a key of the log has signed. Signatures of other keys are ignored."""
    signed = False
    for key in keys:
        for signature in checkpoint.by(key) if key.name == checkpoint.origin else []:
            if not valid(key, signature, checkpoint.text.encode()):
                raise ProofError("invalid_signature", f"the signature of {key.name} is not valid")
            signed = True
    if not signed:
        raise ProofError("unknown_log", f"none of the given keys of the log has signed the checkpoint of {checkpoint.origin}")


def _seen(checkpoint: _Checkpoint, key: _Key, valid: _Valid) -> list[datetime]:
    """Returns the times at which a witness has seen the checkpoint. Each of its signatures must be valid."""
    times: list[datetime] = []
    for data in checkpoint.by(key):
        seconds = int.from_bytes(data[:8], "big") if len(data) == 72 else _END_OF_TIME
        message = f"cosignature/v1\ntime {seconds}\n{checkpoint.text}".encode()
        if seconds >= _END_OF_TIME or not valid(key, data[8:], message):
            raise ProofError("invalid_signature", f"the cosignature of {key.name} is not valid")
        times.append(datetime.fromtimestamp(seconds, UTC))
    return times


def _included(leaf: bytes, index: int, size: int, path: list[bytes], root: bytes) -> bool:
    """Verifies an inclusion proof (RFC 9162, section 2.1.3.2)."""
    if index >= size:
        return False
    digest, at, last = leaf, index, size - 1
    for sibling in path:
        if last == 0:
            return False
        if at & 1 or at == last:
            digest = hashlib.sha256(b"\1" + sibling + digest).digest()
            while not at & 1 and at != 0:
                at, last = at >> 1, last >> 1
        else:
            digest = hashlib.sha256(b"\1" + digest + sibling).digest()
        at, last = at >> 1, last >> 1
    return last == 0 and digest == root
