"""Encodes and decodes the files of a checkpoint: one subtask's states, and the decision. Digests reveal damage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from itertools import accumulate, pairwise
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import quote

import msgspec
import xxhash

from sinkproof.reference_engine.checkpointing.coordinator import CheckpointRecord
from sinkproof.reference_engine.checkpointing.memory_storage import DamagedCheckpoint

SCHEMA: Final = "sinkproof/checkpoint/1"
SHA256_DIGITS: Final = 64
STATES_MAGIC: Final = b"sinkproof/states/1\n"

States = Mapping[str, bytes | Mapping[int, bytes]]  # part of a subtask -> its state, whole or by key group


class Readable(Protocol):
    """A file, or an object of a store; its text says where it is."""

    def read_bytes(self) -> bytes: ...


class Reference(NamedTuple):
    """What the coordinator keeps of a snapshot, and the decision of the checkpoint."""

    file: str  # in the checkpoint's own folder
    digest: str  # XXH3-128; of earlier versions SHA-256
    size_bytes: int


def encode_snapshot(subtask: str, states: States) -> tuple[Reference, bytes]:
    """The name of its file holds the digest: no two attempts collide."""
    data = encode_states(states)
    digest = xxhash.xxh3_128_hexdigest(data)
    return Reference(f"{quote(subtask, safe='[]')}-{digest[:16]}.state", digest, len(data)), data


def encode_states(states: States) -> bytes:
    """One line of JSON that says what follows, then the bytes themselves: nothing read back is ever executed."""
    layout: list[tuple[str, list[int] | None, list[int]]] = []
    blobs: list[bytes] = []
    for name, state in states.items():
        groups = sorted(state) if isinstance(state, Mapping) else None
        parts = [state[group] for group in groups] if isinstance(state, Mapping) and groups is not None else [state]
        blobs += (part if isinstance(part, bytes) else _refuse_to_encode(name, part) for part in parts)
        layout.append((name, groups, list(map(len, blobs[len(blobs) - len(parts) :]))))
    return b"".join([STATES_MAGIC, msgspec.json.encode(layout), b"\n", *blobs])


def _refuse_to_encode(name: str, part: object) -> bytes:
    raise TypeError(f"the state of {name!r} is {type(part).__name__}: a checkpoint holds bytes, or bytes by key group")


def _split_states(data: bytes) -> dict[str, bytes | dict[int, bytes]]:
    """Raises ValueError for anything that `encode_states` did not write."""
    magic, header, body = (*data.split(b"\n", 2), b"", b"")[:3]
    if magic + b"\n" != STATES_MAGIC:
        raise ValueError(f"does not begin with {STATES_MAGIC!r}")
    states: dict[str, bytes | dict[int, bytes]] = {}
    at = 0
    for name, groups, lengths in msgspec.json.decode(header):
        bounds = list(accumulate(lengths, initial=at))
        parts = [body[start:end] for start, end in pairwise(bounds)]
        states[name] = parts[0] if groups is None else dict(zip(groups, parts, strict=True))
        at = bounds[-1]
    if at != len(body):
        raise ValueError(f"holds {len(body)} bytes of states where {at} are announced")
    return states


def encode_decision(record: CheckpointRecord) -> bytes:
    checkpoint = {**record._asdict(), "states": {name: Reference(*kept) for name, kept in record.states.items()}}
    text = msgspec.json.encode(checkpoint, order="sorted")
    return msgspec.json.encode({"schema": SCHEMA, "sha256": digest_of(text), "checkpoint": text.decode()})


def newest_trusted(
    checkpoint_ids: Iterable[int], load: Callable[[int], CheckpointRecord]
) -> tuple[CheckpointRecord | None, dict[int, DamagedCheckpoint]]:
    """The newest one that can be loaded; what is wrong with each newer one, newest first."""
    damaged: dict[int, DamagedCheckpoint] = {}
    for checkpoint_id in sorted(checkpoint_ids, reverse=True):
        try:
            return load(checkpoint_id), damaged
        except DamagedCheckpoint as error:
            damaged[checkpoint_id] = error
    return None, damaged


def decode_checkpoint(decision: Readable, checkpoint_id: int, file_of: Callable[[str], Readable]) -> CheckpointRecord:
    """Its references resolved, every digest checked."""
    record = decode_decision(decision, checkpoint_id)
    states = {subtask: decode_states(file_of(kept.file), kept) for subtask, kept in record.states.items()}
    return record._replace(states=states)


def decode_decision(path: Readable, checkpoint_id: int) -> CheckpointRecord:
    """The record, its states still references."""
    data = _read(path)
    try:
        outer: dict[str, Any] = msgspec.json.decode(data)
        schema, digest, text = outer["schema"], outer["sha256"], outer["checkpoint"]
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedCheckpoint(f"{path} is torn or was overwritten: {error!r} in {data[:60]!r}") from error
    if schema != SCHEMA:
        raise DamagedCheckpoint(f"{path} is of another version: its schema is {schema!r}, not {SCHEMA!r}")
    if digest != digest_of(str(text).encode()):
        raise DamagedCheckpoint(f"{path} has changed since it was written: its digest is not {digest}")
    held = msgspec.json.decode(text)
    if held["checkpoint_id"] != checkpoint_id:
        raise DamagedCheckpoint(f"{path} is the decision of checkpoint {held['checkpoint_id']}: its folder was renamed")
    states = {name: Reference(*kept) for name, kept in held["states"].items()}
    return CheckpointRecord(checkpoint_id, held["final"], states, held["parallelism"])


def decode_states(path: Readable, reference: Reference) -> dict[str, bytes | dict[int, bytes]]:
    data = _read(path)
    if not _is_intact(data, reference.digest):
        why = f"{len(data)} bytes where {reference.size_bytes} were written, with another digest"
        raise DamagedCheckpoint(f"{path} has changed since it was written: {why}")
    try:
        return _split_states(data)
    except (ValueError, TypeError) as error:
        raise DamagedCheckpoint(f"{path} does not hold states, or those of another version: {error}") from error


def _read(path: Readable) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DamagedCheckpoint(f"{path} cannot be read: {error.strerror or repr(error)}") from error


def _is_intact(data: bytes, digest: str) -> bool:
    return digest == (digest_of(data) if len(digest) == SHA256_DIGITS else xxhash.xxh3_128_hexdigest(data))


def digest_of(data: bytes) -> str:
    return sha256(data).hexdigest()
