"""Tells whether the body of a response is one of the API.

A proxy also answers with 200 and JSON, and a copy must not lose its records because of it. Each function returns what is wrong with a
body, or "".
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any


def check_records(body: Any) -> str:
    return _check_page(body, _is_record)


def check_events(body: Any) -> str:
    return _check_page(body, lambda event: _has_texts(event, "id"))


def check_changes(body: Any) -> str:
    if not _has_texts(_member(body, "pagination"), "cursor"):
        return "pagination.cursor is missing"
    return _check_page(body, lambda change: _has_texts(change, "id", "change", "cursor"))


def check_detail(body: Any) -> str:
    return _check_meta(body) if _is_record(_member(body, "data")) else "data is not a record"


def _check_page(body: Any, is_item: Callable[[Any], bool]) -> str:
    data, pagination = _member(body, "data"), _member(body, "pagination")
    limit, more = _member(pagination, "limit"), _member(pagination, "hasMore")
    if not isinstance(data, list):
        return "data is not a list"
    if type(limit) is not int or limit < 1:
        return "pagination.limit is not a positive number"
    if not isinstance(more, bool):
        return "pagination.hasMore is not a boolean"
    if more and not _has_texts(pagination, "next"):
        return "pagination.next is missing"
    for index, item in enumerate(data):
        if not is_item(item):
            return f"data[{index}] is incomplete"
    return _check_meta(body)


def _check_meta(body: Any) -> str:
    return "" if _member(_member(body, "meta"), "version") == "1" else 'meta.version is not "1"'


def _is_record(record: Any) -> bool:
    verification = _member(record, "verification")
    return _has_texts(record, "id") and all(_is_time_or_none(verification, name) for name in ("lastCheckedAt", "freshUntil"))


def _member(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _has_texts(value: Any, *names: str) -> bool:
    return all(isinstance(text := _member(value, name), str) and text != "" for name in names)


def _is_time_or_none(value: Any, name: str) -> bool:
    if not isinstance(value, dict) or name not in value:
        return False
    try:
        return value[name] is None or datetime.fromisoformat(value[name]).tzinfo is not None
    except (TypeError, ValueError):
        return False
