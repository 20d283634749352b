"""The client."""

from __future__ import annotations

import copy
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Unpack, cast
from urllib.parse import quote, urlsplit

from . import _sync
from ._cache import Cache
from ._check import check_changes, check_detail, check_events, check_records
from ._list import ChangePage, Detail, Page, items, pages
from ._match import check_names
from ._request import Requester, Retry
from ._sync import Store, SyncResult
from ._types import ChangeFilter, CursorPagination, VerificationEvent, Filter, HistoryFilter, Opportunity, RecordChange, SearchFilter

VERSION = "1.0.0"

_LIST = "/api/v1/opportunities"
_SEARCH = "/api/v1/search"
_CHANGES = "/api/v1/changes"
_PROOFS = "/.well-known/opportunity-history/log/proof/"


class Client:
    """Calls the API with one key. It is safe for use by several threads, and keeps its connections open until it is closed."""

    def __init__(
        self,
        *,
        url: str | None = None,
        key: str | None = None,
        timeout: float = 30.0,
        retry_budget: float = 90.0,
        cache: Cache | None = None,
        user_agent: str = "",
        on_retry: Callable[[Retry], object] | None = None,
        cancel: threading.Event | None = None,
        sleep: Callable[[float], object] | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Raises ValueError if the address or the key is missing or malformed; the message never contains the key.

        url: the address of the service, such as https://api.example.com or https://example.com/opportunities. The default is the
            environment variable OPPORTUNITY_URL.
        key: the API key. The default is the environment variable OPPORTUNITY_KEY.
        timeout: bounds each wait for the network, in seconds.
        retry_budget: bounds the time that one request waits between attempts, in seconds; 0 turns retries off.
        cache: makes calls conditional: the client sends the entity tags of cached responses.
        user_agent: names your program, such as "prices/1.2", in the User-Agent header; the name and version of this SDK follow.
        on_retry: is called before each wait for another attempt, for example to log it; what it raises ends the call.
        cancel: when this event is set, waits end and the next request raises Cancelled.
        sleep, now: replace the wait between attempts and the clock, for tests.
        """
        if sys.platform in ("emscripten", "wasi"):
            raise RuntimeError("keys must not be used in a browser; call the API from a server")
        self._requester = Requester(
            _base(url or os.environ.get("OPPORTUNITY_URL", "")),
            _checked(key or os.environ.get("OPPORTUNITY_KEY", "")),
            _agent(user_agent),
            timeout=timeout,
            retry_budget=retry_budget,
            cache=cache,
            cancel=cancel,
            on_retry=on_retry,
            sleep=sleep,
            now=now,
        )
        self._now = now

    def within(self, seconds: float) -> Client:
        """Returns this client with a deadline: calls that do not end within that many seconds from now raise TimeoutError.

        Retries, waits and all pages of a list count: client.within(10).opportunity(id). What this client is set to do does not change.
        """
        bounded = copy.copy(self)
        bounded._requester = self._requester.within(seconds)
        return bounded

    def close(self) -> None:
        """Closes the connections that no call uses."""
        self._requester.connections.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _cancelled_by(self, cancel: threading.Event) -> Client:
        bounded = copy.copy(self)
        bounded._requester = self._requester.cancelled_by(cancel)
        return bounded

    def opportunities(self, **filter: Unpack[Filter]) -> Iterator[Opportunity]:
        """Iterates over the records that match the filter, over all pages. Each id appears once."""
        return items(self.opportunity_pages(**filter))

    def opportunity_pages(self, **filter: Unpack[Filter]) -> Iterator[Page[Opportunity]]:
        """Iterates over the pages of the records that match the filter.

        If records change during the iteration, a record can appear on two pages or on none.
        """
        check_names(filter, Filter)
        return pages(self._requester, _LIST, filter, check_records)

    def search(self, **filter: Unpack[SearchFilter]) -> Iterator[Opportunity]:
        """Iterates over the records that match the filter, over all pages. Each id appears once."""
        return items(self.search_pages(**filter))

    def search_pages(self, **filter: Unpack[SearchFilter]) -> Iterator[Page[Opportunity]]:
        """Iterates over the pages of the records that match the filter, as opportunity_pages does."""
        check_names(filter, SearchFilter)
        return pages(self._requester, _SEARCH, filter, check_records)

    def opportunity(self, id: str) -> Detail:
        """Returns one record. A record that does not exist, or that the account cannot read, is an error with Code.NOT_FOUND."""
        result = self._requester.get(_record(id), check_detail)
        return Detail(result.value["data"], result.value["meta"], result.response)

    def history(self, id: str, **filter: Unpack[HistoryFilter]) -> Iterator[VerificationEvent]:
        """Iterates over the verification history of a record, newest first, over all pages. Each event appears once."""
        return items(self.history_pages(id, **filter))

    def history_pages(self, id: str, **filter: Unpack[HistoryFilter]) -> Iterator[Page[VerificationEvent]]:
        """Iterates over the pages of a record's verification history, newest first."""
        check_names(filter, HistoryFilter)
        return pages(self._requester, f"{_record(id)}/history", filter, check_events)

    def event_proof(self, id: str) -> str:
        """Returns the proof of an event, for verify_event. It is public: the request has no key and is not charged.

        An event of a record that is not public is an error with Code.NOT_FOUND. So is an event that was recorded within seconds: no
        checkpoint covers it yet.
        """
        return self._requester.get_proof(_PROOFS + quote(id, safe=""))

    def changes(self, **filter: Unpack[ChangeFilter]) -> Iterator[RecordChange]:
        """Iterates over the changes of records after a cursor, oldest first, over all pages."""
        for page in self.change_pages(**filter):
            yield from page.data

    def change_pages(self, **filter: Unpack[ChangeFilter]) -> Iterator[ChangePage]:
        """Iterates over the pages of the changes of records after a cursor, oldest first.

        pagination["cursor"] of the last page is the cursor to continue with.
        """
        check_names(filter, ChangeFilter)
        return _change_pages(pages(self._requester, _CHANGES, filter, check_changes))

    def sync(self, store: Store, *, full_every: timedelta | None = None) -> SyncResult:
        """Updates a copy of all records that the account can read.

        The first call reads everything. Later calls read the changes since, and the changed records. If the account cannot read changes,
        they read the records reviewed since, and everything again once full_every has passed, by default a day: only such a walk sees
        removals and changes other than reviews, such as link checks and edits. With changes, no further walk is needed, unless full_every
        is given. The store changes once, at the end; after an error the copy is as before.

        If records change during the walk through the pages, it walks again, up to three times. If they never stop changing, it looks up
        each record that the last walk did not see before it removes it.
        """
        return _sync.sync(self, store, self._now(), full_every)

    def _walk(self, filter: dict[str, Any]) -> Iterator[Page[Opportunity]]:
        """Iterates over pages without the cache."""
        return pages(self._requester, _LIST, filter, check_records, fresh=True)

    def _changes(self, after: str) -> Iterator[ChangePage]:
        """Iterates over changes without the cache."""
        return _change_pages(pages(self._requester, _CHANGES, {"after": after}, check_changes, fresh=True))

    def _unchanged(self, page: Page[Opportunity]) -> bool:
        """Reports whether a page is as before."""
        return self._requester.get(page._path, check_records, etag=page._etag, fresh=True).response.not_modified


def _change_pages(pages: Iterator[Page[RecordChange]]) -> Iterator[ChangePage]:
    for page in pages:
        yield ChangePage(page.data, cast(CursorPagination, page.pagination), page.meta, page.response)


def _record(id: str) -> str:
    return f"{_LIST}/{quote(id, safe='')}"


def _base(address: str) -> str:
    if not address:
        raise ValueError("address missing: set OPPORTUNITY_URL or pass url")
    url = urlsplit(address)
    if url.scheme not in ("http", "https") or not url.hostname or "@" in url.netloc or re.search("[?#]", address):
        raise ValueError("invalid address: expected a scheme, a host and, if any, a path, such as https://api.example.com")
    return f"{url.scheme}://{url.netloc}{quote(url.path.rstrip('/'), safe='/%!$&()*+,;=:@~')}"


def _checked(key: str) -> str:
    """Rejects what cannot be sent in a header, such as the newline at the end of a file."""
    if not key:
        raise ValueError("key missing: set OPPORTUNITY_KEY or pass key")
    if not re.fullmatch(r"[!-~]+", key):
        raise ValueError("invalid key: it contains a space, a line break or a character that is not ASCII")
    return key


def _agent(program: str) -> str:
    if not re.fullmatch(r"[ -~]*", program):
        raise ValueError("invalid user_agent: it contains a line break or a character that is not ASCII")
    return f"{program} opportunity-python/{VERSION}".strip()
