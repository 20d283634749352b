"""The client for asyncio."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from types import TracebackType
from typing import Any, TypeVar, Unpack

from ._client import Client
from ._list import ChangePage, Detail, Page
from ._sync import Store, SyncResult
from ._types import ChangeFilter, VerificationEvent, Filter, HistoryFilter, Opportunity, RecordChange, SearchFilter

T = TypeVar("T")


class AsyncClient:
    """Calls the API from asyncio.

    It makes the calls of a Client in threads, so it behaves like one and needs no other package. Cancelling a task, or
    asyncio.timeout, ends its waits at once; its thread is free when the response arrives or times out.

        async with AsyncClient() as client:
            async for record in client.opportunities(country="CA"):
                ...
    """

    def __init__(self, client: Client | None = None, *, threads: int = 8) -> None:
        """Makes the calls of client, by default Client(), in up to that many threads. The option cancel of the client has no effect."""
        self._client = client or Client()
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="opportunity-data")

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the connections. Calls after that are errors."""
        self._threads.shutdown(wait=False)
        self._client.close()

    async def opportunity(self, id: str) -> Detail:
        """Client.opportunity."""
        return await self._run(lambda client: client.opportunity(id))

    def opportunities(self, **filter: Unpack[Filter]) -> AsyncIterator[Opportunity]:
        """Client.opportunities."""
        return self._items(self.opportunity_pages(**filter))

    def opportunity_pages(self, **filter: Unpack[Filter]) -> AsyncIterator[Page[Opportunity]]:
        """Client.opportunity_pages."""
        return self._pages(lambda client: client.opportunity_pages(**filter))

    def search(self, **filter: Unpack[SearchFilter]) -> AsyncIterator[Opportunity]:
        """Client.search."""
        return self._items(self.search_pages(**filter))

    def search_pages(self, **filter: Unpack[SearchFilter]) -> AsyncIterator[Page[Opportunity]]:
        """Client.search_pages."""
        return self._pages(lambda client: client.search_pages(**filter))

    def history(self, id: str, **filter: Unpack[HistoryFilter]) -> AsyncIterator[VerificationEvent]:
        """Client.history."""
        return self._items(self.history_pages(id, **filter))

    def history_pages(self, id: str, **filter: Unpack[HistoryFilter]) -> AsyncIterator[Page[VerificationEvent]]:
        """Client.history_pages."""
        return self._pages(lambda client: client.history_pages(id, **filter))

    async def event_proof(self, id: str) -> str:
        """Client.event_proof."""
        return await self._run(lambda client: client.event_proof(id))

    async def changes(self, **filter: Unpack[ChangeFilter]) -> AsyncIterator[RecordChange]:
        """Client.changes."""
        async for page in self.change_pages(**filter):
            for change in page.data:
                yield change

    def change_pages(self, **filter: Unpack[ChangeFilter]) -> AsyncIterator[ChangePage]:
        """Client.change_pages."""
        return self._pages(lambda client: client.change_pages(**filter))

    async def sync(self, store: Store, *, full_every: timedelta | None = None) -> SyncResult:
        """Client.sync. The methods of the store run in a thread."""
        return await self._run(lambda client: client.sync(store, full_every=full_every))

    async def _run(self, call: Callable[[Client], T]) -> T:
        """Makes a call in a thread."""
        cancel = threading.Event()
        client = self._client._cancelled_by(cancel)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, call, client)
        finally:
            cancel.set()

    async def _pages(self, start: Callable[[Client], Iterator[T]]) -> AsyncIterator[T]:
        cancel = threading.Event()
        pages = start(self._client._cancelled_by(cancel))
        try:
            while page := await self._run(lambda _: next(pages, None)):
                yield page
        finally:
            cancel.set()

    async def _items(self, pages: AsyncIterator[Page[Any]]) -> AsyncIterator[Any]:
        """Iterates over the items of pages and skips those whose id appeared before."""
        seen: set[str] = set()
        async for page in pages:
            for item in page.data:
                if item["id"] not in seen:
                    seen.add(item["id"])
                    yield item
