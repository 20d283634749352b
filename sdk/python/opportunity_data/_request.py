"""Sends requests: attempts, retries, conditional requests."""

from __future__ import annotations

import copy
import gzip
import http.client
import itertools
import json
import math
import random
import re
import sys
import threading
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from ._cache import Cache, CacheEntry
from ._connections import Connections, Unreachable
from ._error import CONNECTION_FAILED, Cancelled, OpportunityError, invalid_response, response_error
from ._proof import PROOF_VERSION
from ._types import Code

T = TypeVar("T")

# Backoff between attempts in seconds. Each wait is a random time between half of the step and the step; the steps double.
FIRST_STEP = 0.5
LAST_STEP = 30.0
# Attempts to open a connection: an address that accepts none is most likely wrong.
MAX_CONNECTS = 2
# Bounds of times in seconds: the end of the year 9999, and of delays (RFC 9111 section 1.2.2).
LAST_SECOND = 253_402_300_799
MAX_DELAY = 2**31


@dataclass(frozen=True)
class RateLimit:
    """A quota of the account."""

    limit: int
    """Calls in a day, or in any 60 seconds."""

    remaining: int
    """Calls left."""

    reset: datetime
    """When more calls are available: for the day, the next midnight UTC."""


@dataclass(frozen=True)
class ResponseInfo:
    """The HTTP response behind a result."""

    request_id: str

    rate_limit: RateLimit
    """The daily quota after this call."""

    minute_limit: RateLimit
    """The quota of 60 seconds after this call."""

    not_modified: bool
    """Set if the API confirmed a cached response with a 304, which is charged like a 200. meta["generatedAt"] is then the time of the
    cached response."""


@dataclass(frozen=True)
class Retry:
    """A failed attempt and the wait before the next one."""

    attempt: int
    """Attempts so far, 1 after the first."""

    wait: float
    """Seconds until the next attempt."""

    error: OpportunityError
    """Why the attempt failed."""


@dataclass
class Reply:
    """A complete HTTP response."""

    status: int
    headers: Message
    body: bytes

    @property
    def request_id(self) -> str:
        return self.headers.get("X-Request-Id", "")

    def number(self, header: str) -> int:
        """Returns the whole number in a header, or 0 if it has none."""
        return _number(self.headers.get(header, ""))

    def retry_after(self, now: datetime) -> int:
        """Returns the seconds of Retry-After, which has seconds or a date (RFC 9110 section 10.2.3).

        0 means that it is missing or in the past.
        """
        seconds = self.number("Retry-After")
        try:
            at = parsedate_to_datetime(self.headers.get("Retry-After", ""))
            seconds = math.ceil((at.replace(tzinfo=at.tzinfo or UTC) - now).total_seconds())
        except (ValueError, TypeError, IndexError, OverflowError):
            pass
        return min(max(0, seconds), MAX_DELAY)

    def describe(self, now: datetime) -> ResponseInfo:
        reset = datetime.fromtimestamp(min(self.number("X-RateLimit-Reset"), LAST_SECOND), UTC)
        day = RateLimit(self.number("X-RateLimit-Limit"), self.number("X-RateLimit-Remaining"), reset)
        more = now + timedelta(seconds=min(self._minute("RateLimit", "t"), MAX_DELAY))
        minute = RateLimit(self._minute("RateLimit-Policy", "q"), self._minute("RateLimit", "r"), more)
        return ResponseInfo(self.request_id, day, minute, self.status == 304)

    def _minute(self, header: str, parameter: str) -> int:
        """Returns a parameter of the minute in a header such as `"minute";r=59;t=60, "day";r=999;t=52200`, or 0 if it is missing."""
        found = re.search(f'"minute"[^,]*;{parameter}=([0-9]+)', self.headers.get(header, ""))
        return _number(found[1]) if found else 0


def _number(text: str) -> int:
    """Returns the whole number that a text is, or 0. Numbers that are too large are sys.maxsize."""
    if not re.fullmatch("[0-9]+", text):
        return 0
    return int(text) if len(text) < 19 else sys.maxsize


@dataclass(frozen=True)
class Result:
    """The outcome of a request: the decoded body, which is None for an unchanged response, and the response."""

    value: Any
    etag: str
    response: ResponseInfo


class Requester:
    """Sends GET requests to one address with one key."""

    def __init__(
        self,
        base: str,
        key: str,
        user_agent: str,
        *,
        timeout: float,
        retry_budget: float,
        cache: Cache | None,
        cancel: threading.Event | None,
        on_retry: Callable[[Retry], object] | None,
        sleep: Callable[[float], object] | None,
        now: Callable[[], datetime],
    ) -> None:
        self._base = base
        # A function, so that printing the object's attributes does not print the key.
        self._authorization = lambda: f"Bearer {key}"
        self._user_agent = user_agent
        self._timeout = timeout
        self._retry_budget = retry_budget
        self._cache = cache
        self._cancel = cancel or threading.Event()
        self._on_retry = on_retry or (lambda retry: None)
        self._sleep = sleep or self._cancel.wait
        self._now = now
        self.connections = Connections()
        self._end = math.inf

    def within(self, seconds: float) -> Requester:
        """Returns a requester whose requests raise TimeoutError unless they end within that time from now."""
        bounded = copy.copy(self)
        bounded._end = min(self._end, time.monotonic() + seconds)
        return bounded

    def cancelled_by(self, cancel: threading.Event) -> Requester:
        """Returns a requester whose waits and requests end when the event is set."""
        bounded = copy.copy(self)
        if self._sleep == self._cancel.wait:
            bounded._sleep = cancel.wait
        bounded._cancel = cancel
        return bounded

    def get(self, path: str, check: Callable[[Any], str], *, etag: str = "", fresh: bool = False) -> Result:
        """Sends a request until it succeeds, cannot succeed, or the retry budget or the deadline is used up.

        check returns what is wrong with the body of a 200. etag is sent as If-None-Match; a 304 then has no value. fresh bypasses the
        cache.
        """
        return self._get(lambda: self._attempt(path, check, etag, fresh))

    def _get(self, send: Callable[[], T]) -> T:
        waited, step = 0.0, FIRST_STEP
        for attempt in itertools.count(1):
            try:
                return send()
            except OpportunityError as error:
                wait = _retry_in(error, step)
                lost = error._unreachable and attempt >= MAX_CONNECTS
                if wait is None or waited + wait > self._retry_budget or lost:
                    raise
                self._remaining(wait, error)
                self._on_retry(Retry(attempt, wait, error))
            self._sleep(wait)
            waited += wait
            step = min(2 * step, LAST_STEP)
        raise AssertionError  # unreachable

    def get_proof(self, path: str) -> str:
        """Returns a proof of the log, which is public and text, so that the request has no key."""
        return self._get(lambda: self._attempt_proof(path))

    def _attempt_proof(self, path: str) -> str:
        reply = self._send(path, "", public=True)
        if reply.status != 200:
            raise response_error(reply, reply.retry_after(self._now()))
        text = reply.body.decode(errors="surrogateescape")  # which is no proof
        if not text.startswith(f"{PROOF_VERSION}\n"):
            raise invalid_response(reply, "the response is no proof")
        return text

    def _attempt(self, path: str, check: Callable[[Any], str], etag: str, fresh: bool) -> Result:
        url = self._base + path  # names the entry of the cache
        cache = None if fresh else self._cache
        cached = cache.get(url) if cache else None
        reply = self._send(path, etag or (cached.etag if cached else ""))
        response, tag = reply.describe(self._now()), reply.headers.get("ETag", "")
        if response.not_modified and etag:
            return Result(None, tag, response)
        if response.not_modified and cached:
            body = cached.body
        elif reply.status == 200:
            body = reply.body
        else:
            raise response_error(reply, reply.retry_after(self._now()))
        try:
            value = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise invalid_response(reply, "the response is not JSON") from error
        if wrong := check(value):
            raise invalid_response(reply, f"the response is not one of the API: {wrong}")
        if cache and tag and not response.not_modified:
            cache.put(url, CacheEntry(tag, body))
        return Result(value, tag, response)

    def _send(self, path: str, tag: str, public: bool = False) -> Reply:
        if self._cancel.is_set():
            raise Cancelled
        headers = {
            **({} if public else {"Authorization": self._authorization()}),
            "User-Agent": self._user_agent,
            "Accept-Encoding": "gzip",
            **({"If-None-Match": tag} if tag else {}),
        }
        timeout = min(self._timeout, self._remaining())
        try:
            with self.connections.get(self._base + path, headers, timeout) as response:
                body = self._read(response)
                if response.headers.get("Content-Encoding", "").lower() in ("gzip", "x-gzip"):
                    body = gzip.decompress(body)
                return Reply(response.status, response.headers, body)
        except (OSError, EOFError, http.client.HTTPException, zlib.error) as error:  # OSError includes timeouts
            self._remaining(cause=error)
            failed = OpportunityError(CONNECTION_FAILED, f"no response from {self._base}: {error or type(error).__name__}")
            failed._unreachable = isinstance(error, Unreachable)
            raise failed from error

    def _read(self, response: http.client.HTTPResponse) -> bytes:
        """Reads a body piece by piece, so that one that arrives slowly ends with the deadline too."""
        body = bytearray()
        while piece := response.read1(1 << 16):
            body += piece
            self._remaining()
        if response.length:  # what read raises, but read1 does not
            raise http.client.IncompleteRead(bytes(body), response.length)
        response.read()  # ends the response, so that the connection can be used again
        return bytes(body)

    def _remaining(self, wait: float = 0.0, cause: Exception | None = None) -> float:
        """Returns the seconds until the deadline. It raises TimeoutError if the deadline is over within wait seconds."""
        remaining = self._end - time.monotonic()
        if remaining <= wait:
            raise TimeoutError("the call did not end within its deadline") from cause
        return remaining


def _retry_in(error: OpportunityError, step: float) -> float | None:
    """Returns the seconds before the next attempt, or None if waiting does not help."""
    backoff = random.uniform(step / 2, step)
    if error.code == Code.MINUTE_LIMIT_REACHED:
        return error.retry_after or backoff
    if error.code == CONNECTION_FAILED or error.status >= 500:
        return max(error.retry_after, backoff)
    return None
