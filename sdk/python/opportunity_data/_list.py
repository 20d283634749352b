"""Iterates over lists."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Generic, TypeVar
from urllib.parse import urlencode, urlsplit

from ._error import INVALID_RESPONSE, OpportunityError
from ._request import Requester, ResponseInfo
from ._types import CursorPagination, Meta, Opportunity, Pagination, RecordChange

T = TypeVar("T")

# The default page size. The API lowers it to the maximum of the tier, so a list takes as few calls as possible.
MAX_PAGE_SIZE = 100


@dataclass(frozen=True)
class Page(Generic[T]):
    """A page of a list."""

    data: list[T]
    pagination: Pagination
    meta: Meta
    response: ResponseInfo
    _path: str = field(default="", repr=False)
    _etag: str = field(default="", repr=False)


@dataclass(frozen=True)
class ChangePage:
    """A page of changes."""

    data: list[RecordChange]
    pagination: CursorPagination
    meta: Meta
    response: ResponseInfo


@dataclass(frozen=True)
class Detail:
    """One record with the time and tier of the response."""

    data: Opportunity
    meta: Meta
    response: ResponseInfo


def items(pages: Iterator[Page[Any]]) -> Iterator[Any]:
    """Iterates over the items of pages and skips those whose id appeared before."""
    seen: set[str] = set()
    for page in pages:
        for item in page.data:
            if item["id"] not in seen:
                seen.add(item["id"])
                yield item


def pages(
    requester: Requester, path: str, filter: Mapping[str, Any], check: Callable[[Any], str], *, fresh: bool = False
) -> Iterator[Page[Any]]:
    """Iterates over the pages of a list.

    It follows only the query of pagination.next, so the key never leaves the address of the client.
    """
    query = _query(filter)
    while True:
        result = requester.get(f"{path}?{query}", check, fresh=fresh)
        body = result.value
        yield Page(body["data"], body["pagination"], body["meta"], result.response, f"{path}?{query}", result.etag)
        if not body["pagination"]["hasMore"]:
            return
        query = _following(body["pagination"]["next"], path, query)


def _following(following: str, path: str, current: str) -> str:
    """Returns the query of pagination.next. Its path must be that of the list, behind that of any proxy."""
    try:
        url = urlsplit(following)
    except ValueError:
        url = urlsplit("")
    if not url.path.endswith(path) or url.query == current or not re.fullmatch("[!-~]*", url.query):
        raise OpportunityError(INVALID_RESPONSE, f"pagination.next does not lead to another page: {following}")
    return url.query


def _query(filter: Mapping[str, Any]) -> str:
    parameters = {"limit": str(MAX_PAGE_SIZE)}
    for name, value in filter.items():
        if isinstance(value, bool):
            value = str(value).lower()
        if isinstance(value, date):
            value = text_of(value)
        if value is not None:
            parameters["limit" if name == "page_size" else name] = str(value)
    return urlencode(parameters)


def text_of(time: date) -> str:
    """Returns a date or time as the API takes it."""
    if isinstance(time, datetime) and time.utcoffset() is None:
        raise ValueError("a time in a filter needs a time zone, such as datetime.now(UTC)")
    return time.isoformat()
