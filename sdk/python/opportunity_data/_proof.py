"""Verification of the proofs of single events (C2SP tlog-proof), without a network."""

from __future__ import annotations

import base64
import binascii
import copy
import hashlib
import importlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

_MAX_PROOF = 64 << 10


class ProofError(Exception):
    """An event that is not proved."""

    reason: str
    """malformed_key, malformed_proof, unknown_log, invalid_signature, not_witnessed, hidden_value or different_event."""

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


def verify_event(
    event: Any,
    proof: str,
    *,
    log: Sequence[str],
    witnesses: Sequence[str] = (),
    quorum: int = 0,
) -> Proof:
    """Verifies the proof of an event as the client's history returns it, and raises a ProofError unless it is proved.

    log has the keys of the log: one of them must have signed. witnesses has the keys of witnesses. Each is written as name+id+base64 (C2SP
    signed-note). quorum is the number of witnesses that must have cosigned; 0 means all. Signatures need the package cryptography:
    pip install opportunity-data[proof].
    """
    log_keys = [_parse_key(text, 1) for text in log]
    witness_keys = [_parse_key(text, 4) for text in witnesses]
    index, path, extra, checkpoint = _parse_proof(proof)
    seen = _verify(checkpoint, log_keys, witness_keys)
    quorum = quorum or len(witness_keys)
    if len(seen) < quorum:
        raise ProofError("not_witnessed", f"{len(seen)} of the given witnesses have cosigned the checkpoint, want {quorum}")
    if not _included(_leaf(event, extra), index, checkpoint.size, path, checkpoint.root):
        raise ProofError("different_event", "the event differs from the one that was recorded, or the proof is of another event")
    return Proof(checkpoint.origin, checkpoint.size, index, extra["recordedAt"], tuple(seen))


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


def _malformed(what: str) -> ProofError:
    return ProofError("malformed_proof", f"malformed proof: {what}")


def _decode(text: str) -> bytes | None:
    """Returns the bytes of base64 that is in its one form."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if base64.b64encode(data).decode() == text else None


def _size(text: str, what: str) -> int:
    """Returns a decimal number without leading zeros, below 2^53."""
    if not re.fullmatch(r"0|[1-9][0-9]{0,15}", text) or int(text) >= 1 << 53:
        raise _malformed(f"{what} must be a decimal number")
    return int(text)


def _hash(text: str) -> bytes:
    data = _decode(text)
    if data is None or len(data) != 32:
        raise _malformed("a hash must be base64 of 32 bytes")
    return data


def _parse_proof(text: str) -> tuple[int, list[bytes], dict[str, Any], _Checkpoint]:
    head, found, rest = text.partition("\n\n")
    lines = head.split("\n")
    if len(text) > _MAX_PROOF or not found or len(lines) < 3 or lines[0] != "c2sp.org/tlog-proof@v1":
        raise _malformed("want the line c2sp.org/tlog-proof@v1, an extra line, an index line, hashes, an empty line and a checkpoint")
    if len(lines) > 3 + 63:
        raise _malformed("more than 63 hashes")
    if not lines[2].startswith("index "):
        raise _malformed("the third line must be index and a decimal number")
    extra = _parse_extra(lines[1])
    index = _size(lines[2].removeprefix("index "), "the index in the third line")
    return index, [_hash(line) for line in lines[3:]], extra, _parse_checkpoint(rest)


def _parse_extra(line: str) -> dict[str, Any]:
    try:
        extra = json.loads(_decode(line.removeprefix("extra ")) or b"") if line.startswith("extra ") else None
    except ValueError:
        extra = None
    if isinstance(extra, dict):
        values: dict[str, Any] = {"added": [], **extra}
        texts = [values.get("private"), values.get("recordedAt"), *(values["added"] if isinstance(values["added"], list) else [None])]
        if all(isinstance(text, str) for text in texts):
            return values
    raise _malformed("the second line must be extra and base64 of JSON")


def _parse_checkpoint(note: str) -> _Checkpoint:
    body, found, signatures = note.partition("\n\n")
    lines = body.split("\n")
    if len(note) > _MAX_PROOF or not found or len(lines) != 3 or not lines[0] or not signatures.endswith("\n"):
        raise _malformed("the checkpoint must have three lines, an empty line and signatures")
    size, root = _size(lines[1], "the size of the checkpoint"), _hash(lines[2])
    parsed: list[tuple[str, bytes]] = []
    for line in signatures.removesuffix("\n").split("\n"):
        name, _, encoded = line.removeprefix("— ").partition(" ")
        data = _decode(encoded)
        if not line.startswith("— ") or not name or data is None or len(data) < 5:
            raise _malformed("a signature must be an em dash, a name and base64, separated by spaces")
        parsed.append((name, data))
    return _Checkpoint(lines[0], size, root, f"{body}\n", tuple(parsed))


def _verify(checkpoint: _Checkpoint, log: list[_Key], witnesses: list[_Key]) -> list[Seen]:
    """Returns the witnesses that have cosigned. A key of the log must have signed; signatures of other keys are ignored."""

    def of(key: _Key) -> list[bytes]:
        return [data[4:] for name, data in checkpoint.signatures if name == key.name and data[:4] == key.id]

    text = checkpoint.text.encode()
    signed = False
    for key in log:
        for signature in of(key) if key.name == checkpoint.origin else []:
            if not _valid(key, signature, text):
                raise ProofError("invalid_signature", f"the signature of {key.name} is not valid")
            signed = True
    if not signed:
        raise ProofError("unknown_log", f"none of the given keys of the log has signed the checkpoint of {checkpoint.origin}")
    seen: list[Seen] = []
    for key in witnesses:
        for data in of(key)[:1]:
            seconds = int.from_bytes(data[:8], "big")
            valid = len(data) == 72 and seconds < 1 << 63
            if not valid or not _valid(key, data[8:], f"cosignature/v1\ntime {seconds}\n".encode() + text):
                raise ProofError("invalid_signature", f"the cosignature of {key.name} is not valid")
            seen.append(Seen(key.name, datetime.fromtimestamp(min(seconds, 253402300799), UTC)))
    return seen


def _valid(key: _Key, signature: bytes, text: bytes) -> bool:
    try:
        ed25519: Any = importlib.import_module("cryptography.hazmat.primitives.asymmetric.ed25519")
        exceptions: Any = importlib.import_module("cryptography.exceptions")
    except ImportError as missing:
        raise RuntimeError("signatures need the package cryptography: pip install opportunity-data[proof]") from missing
    try:
        ed25519.Ed25519PublicKey.from_public_bytes(key.key).verify(signature, text)
    except (exceptions.InvalidSignature, ValueError):
        return False
    return True


def _leaf(event: Any, extra: dict[str, Any]) -> bytes:
    event = copy.deepcopy(event)
    for path in extra["added"]:
        if not _without(event, path.split(".")):
            raise ProofError("hidden_value", f"the proof leaves out {path}, which has a value")
    entry = {"event": event, "private": extra["private"], "recordedAt": extra["recordedAt"]}
    return hashlib.sha256(b"\0" + _canonical(entry).encode("utf-8", "surrogatepass")).digest()


def _without(of: Any, path: list[str]) -> bool:
    """Removes the member of a path. It returns False if the member has a value."""
    if isinstance(of, list) and len(path) > 1 and path[0].isascii() and path[0].isdigit() and int(path[0]) < len(of):
        return _without(of[int(path[0])], path[1:])
    if not isinstance(of, dict) or path[0] not in of:
        return True
    if len(path) > 1:
        return _without(of[path[0]], path[1:])
    if of[path[0]] not in (None, "", "unknown", []):
        return False
    del of[path[0]]
    return True


def _canonical(value: Any) -> str:
    """Returns canonical JSON (RFC 8785)."""
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
        return "{" + ",".join(f"{_canonical(name)}:{_canonical(value[name])}" for name in names) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_canonical(element) for element in value) + "]"
    if isinstance(value, float) or isinstance(value, int) and not isinstance(value, bool):
        return _number(float(value))
    return json.dumps(value, ensure_ascii=False)


def _number(value: float) -> str:
    """Returns a number as ECMAScript writes it."""
    if value == 0:
        return "0"
    if 1e-6 <= abs(value) < 1e21:
        text = f"{Decimal(repr(value)):f}"
        return text.removesuffix(".0")
    return re.sub(r"e([+-])0+", r"e\1", repr(value)).replace(".0e", "e")


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
