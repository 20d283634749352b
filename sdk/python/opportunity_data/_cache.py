"""Caches of responses."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class CacheEntry:
    """A stored response."""

    etag: str
    body: bytes


class Cache(Protocol):
    """Stores responses by URL. A cache belongs to one account, because other accounts may see other records."""

    def get(self, url: str) -> CacheEntry | None: ...

    def put(self, url: str, entry: CacheEntry) -> None: ...


class MemoryCache:
    """A cache in memory. When it is full, it drops the oldest entry. It is safe for use by several threads."""

    def __init__(self, size: int) -> None:
        """Creates a cache for up to size responses."""
        self._size = max(1, size)
        self._lock = threading.Lock()
        self._entries: dict[str, CacheEntry] = {}  # oldest first

    def get(self, url: str) -> CacheEntry | None:
        """Returns the entry of a URL."""
        with self._lock:
            return self._entries.get(url)

    def put(self, url: str, entry: CacheEntry) -> None:
        """Stores the entry of a URL."""
        with self._lock:
            self._entries[url] = entry
            if len(self._entries) > self._size:
                del self._entries[next(iter(self._entries))]
