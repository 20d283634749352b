"""Keeps a copy of the records. Client.sync documents the rules."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ._error import OpportunityError
from ._list import MAX_PAGE_SIZE
from ._types import Code, Opportunity

if TYPE_CHECKING:
    from ._client import Client

# Records to store, ids to remove, and the cursor.
Found: TypeAlias = tuple[list[Opportunity], list[str], str | None]

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

    cursor: str | None = None
    """The position of the copy among the changes, or None if the account cannot read them."""


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


def sync(client: Client, store: Store, now: datetime, full_every: timedelta | None) -> SyncResult:
    state = store.state()
    if full_every is None:
        full_every = timedelta.max if state and state.cursor else timedelta(days=1)
    found = None
    if state and now - datetime.fromisoformat(state.full_walk_at) < full_every:
        found = _follow(client, state.cursor, store) if state.cursor else _reviewed(client, state)
    full = found is None
    put, remove, cursor = found or _all(client, store)
    full_walk_at = _text(now) if full or state is None else state.full_walk_at
    checked_after = _latest_review(put, state.checked_after if state else None)
    store.apply(Changes(put, remove, SyncState(checked_after, full_walk_at, cursor)))
    return SyncResult(full, len(put), len(remove))


def _reviewed(client: Client, state: SyncState) -> Found:
    """Reads the records that were reviewed since."""
    records, _ = _settle(client, {"checked_after": _since(state)}, set())
    return list(records.values()), [], None


def _start(client: Client) -> str | None:
    """Returns the current cursor, or None if the account cannot read changes."""
    try:
        return next(client._changes("now")).pagination["cursor"]
    except OpportunityError as error:
        if error.code == Code.SUBSCRIPTION_REQUIRED:
            return None
        raise


def _follow(client: Client, cursor: str, store: Store) -> Found | None:
    """Reads the changes after a cursor, and the changed records: each one or, if that takes fewer calls, all pages.

    It returns None if a walk through all records is needed instead, because the cursor expired or the account can no longer read changes.
    """
    changed: dict[str, bool] = {}  # whether the record is public, by id
    limit = MAX_PAGE_SIZE
    try:
        for page in client._changes(cursor):
            changed |= {change["id"]: change["change"] != "withdrawn" for change in page.data}
            cursor, limit = page.pagination["cursor"], page.pagination["limit"]
    except OpportunityError as error:
        if error.code in (Code.CURSOR_EXPIRED, Code.SUBSCRIPTION_REQUIRED):
            return None
        raise
    wanted = {id for id, public in changed.items() if public}
    records: dict[str, Opportunity] = {}
    if len(wanted) * limit > len(list(store.ids())) + limit - 1:
        for walked in client._walk({}):
            records |= {record["id"]: record for record in walked.data if record["id"] in wanted}
    gone = _look_up(client, wanted, records)
    return list(records.values()), sorted(changed.keys() - wanted) + gone, cursor


def _all(client: Client, store: Store) -> Found:
    """Reads all records and finds the ids to remove: those that are stored, or that an earlier walk saw, but not the last one."""
    cursor = _start(client)  # before the walk, so what changes meanwhile is read again
    ids = set(store.ids())
    records, settled = _settle(client, {}, ids)
    # An unsettled walk may have missed records.
    remove = sorted(ids - records.keys()) if settled else _look_up(client, ids, records)
    return list(records.values()), remove, cursor


def _look_up(client: Client, ids: set[str], records: dict[str, Opportunity]) -> list[str]:
    """Reads the records that are missing, and returns the ids of those that do not exist."""
    gone: list[str] = []
    for id in sorted(ids - records.keys()):
        try:
            records[id] = client.opportunity(id).data
        except OpportunityError as error:
            if error.code != Code.NOT_FOUND:
                raise
            gone.append(id)
    return gone


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
