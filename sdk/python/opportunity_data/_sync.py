"""Keeps a copy of the records. Client.sync documents the rules."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from ._error import OpportunityError
from ._types import Code, Opportunity

if TYPE_CHECKING:
    from ._client import Client

# Reach of an incremental walk into the past: reviews can be recorded some time after they were made.
OVERLAP = timedelta(hours=1)
# Most walks of one sync through records that keep changing.
MAX_WALKS = 3


@dataclass(frozen=True)
class SyncState:
    """The progress of a copy."""

    checked_after: str | None
    """The time of the latest review in the copy, or None if it contains none."""

    full_walk_at: str
    """The time of the last walk through all records."""


@dataclass(frozen=True)
class Changes:
    """The result of one sync."""

    put: list[Opportunity]
    """Records to insert or replace."""

    remove: list[str]
    """Ids of records to delete. Some may not be stored."""

    state: SyncState


@dataclass(frozen=True)
class SyncResult:
    """What one sync did."""

    full: bool
    """All records were read."""

    put: int
    """Records stored."""

    removed: int
    """Records removed."""


class Store(Protocol):
    """A copy of the records. The caller of Client.sync implements it."""

    def state(self) -> SyncState | None:
        """Returns the state that the last apply saved, or None."""
        ...

    def ids(self) -> Iterable[str]:
        """Returns the ids of all stored records."""
        ...

    def apply(self, changes: Changes) -> None:
        """Stores and removes records and saves the state, in one transaction."""
        ...


def sync(client: Client, store: Store, now: datetime, full_every: timedelta) -> SyncResult:
    state = store.state()
    if state is None or now - datetime.fromisoformat(state.full_walk_at) >= full_every:
        full, full_walk_at = True, _text(now)
        put, remove = _walk_all(client, store.ids())
    else:
        full, full_walk_at = False, state.full_walk_at
        records, _ = _settle(client, {"checked_after": _since(state)}, set())
        put, remove = list(records.values()), []
    checked_after = _latest_review(put, state.checked_after if state else None)
    store.apply(Changes(put, remove, SyncState(checked_after, full_walk_at)))
    return SyncResult(full, len(put), len(remove))


def _walk_all(client: Client, stored: Iterable[str]) -> tuple[list[Opportunity], list[str]]:
    """Reads all records and finds the ids to remove: those that are stored, or that an earlier walk saw, but not the last one."""
    ids = set(stored)
    records, settled = _settle(client, {}, ids)
    remove: list[str] = []
    for id in sorted(ids - records.keys()):
        found = None if settled else _find(client, id)  # an unsettled walk may have missed the record
        if found:
            records[id] = found
        else:
            remove.append(id)
    return list(records.values()), remove


def _find(client: Client, id: str) -> Opportunity | None:
    """Returns a record, or None if it does not exist."""
    try:
        return client.opportunity(id).data
    except OpportunityError as error:
        if error.code == Code.NOT_FOUND:
            return None
        raise


def _settle(client: Client, filter: dict[str, Any], ids: set[str]) -> tuple[dict[str, Opportunity], bool]:
    """Walks until the records did not change during the walk, and reports whether that succeeded.

    It adds every id that any walk saw to ids.
    """
    records: dict[str, Opportunity] = {}
    for _ in range(MAX_WALKS):
        records = {}  # a record that moved appears twice; the later copy is newer
        walk = list(client._walk(filter))
        for page in walk:
            records |= {record["id"]: record for record in page.data}
        ids |= records.keys()
        # The entity tag of the first page depends on all records.
        if not walk[0].pagination["hasMore"] or client._unchanged(walk[0]):
            return records, True
    return records, False


def _since(state: SyncState) -> str:
    """Returns the start of an incremental walk. A copy without any review reads all reviewed records."""
    if state.checked_after is None:
        return "1970-01-01"
    return _text(datetime.fromisoformat(state.checked_after) - OVERLAP)


def _latest_review(records: list[Opportunity], latest: str | None) -> str | None:
    for record in records:
        at = record["verification"]["lastCheckedAt"]
        if at is not None and (latest is None or datetime.fromisoformat(at) > datetime.fromisoformat(latest)):
            latest = at
    return latest


def _text(time: datetime) -> str:
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")
