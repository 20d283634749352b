"""Tells whether the list and the search return a stored record."""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, date, datetime
from typing import Any

from ._list import text_of
from ._types import CountryEligibility, Opportunity, SearchFilter, Verification


def matches(record: Opportunity, filter: SearchFilter | None = None, now: datetime | None = None) -> bool:
    """Reports whether the list and the search return a stored record for a filter at a time, by default now.

    It applies the province rule and the facts of three values, and computes verified from freshUntil. page and page_size have no effect. A
    filter that the API rejects raises ValueError, and one that it does not have TypeError.
    """
    given: dict[str, Any] = {name: value for name, value in (filter or {}).items() if value is not None}
    check_names(given, SearchFilter)
    country, province = _region(given)
    for name in ("q", "language", "subcategory"):
        if name in given and not _words(given[name]):
            raise ValueError(f"invalid {name} {given[name]!r}: it needs a letter or a digit")
    facts, verification = record["facts"], record["verification"]
    checked, subcategory = verification["lastCheckedAt"], record["subcategory"] or ""
    has = {
        "remote": facts["remote"],
        "verified": _verified(verification, now or datetime.now(UTC)),
        "degree_required": facts["degreeRequired"],
        "experience_required": facts["experienceRequired"],
        "flexible": facts["flexibleSchedule"],
        "category": record["category"],
        "application_status": facts["applicationStatus"],
        "pay_unit": facts["pay"] and facts["pay"]["unit"],
    }
    after = _instant(given["checked_after"]) if "checked_after" in given else None
    text = _words("\n".join((record["company"]["name"], subcategory, record["summary"])))
    return (
        all(has[name] == given[name] for name in has if name in given)
        and (not country or any(_covers(entry, country, province) for entry in facts["countryEligibility"]))
        and (after is None or checked is not None and _instant(checked) >= after)
        and _begin(_words(given.get("q", "")), text)
        and ("language" not in given or any(_begin(_words(given["language"]), _words(name)) for name in facts["languages"]))
        and ("subcategory" not in given or _words(given["subcategory"]) == _words(subcategory))
    )


def check_names(filter: Any, allowed: type) -> None:
    """Raises TypeError for a filter that is not allowed. It names page_size for limit, the name of the parameter."""
    for name in filter:
        if name not in allowed.__annotations__:
            raise TypeError(f"unknown filter {name}" + ("; use page_size" if name == "limit" else ""))


def _verified(verification: Verification, now: datetime) -> bool | None:
    """Reports whether the status is verified at a time, or None without a review."""
    until = verification["freshUntil"]
    if verification["reviewCount"] == 0:
        return None
    return verification["status"] in ("verified", "stale") and until is not None and _instant(now) <= _instant(until)


def _region(filter: dict[str, Any]) -> tuple[str, str]:
    """Returns country and province of a filter in the form of records."""
    country, province = filter.get("country", "").upper(), filter.get("province", "").upper()
    if "country" in filter and not re.fullmatch("[A-Z]{2}", country):
        raise ValueError(f"invalid country {filter['country']!r}: use two letters, such as CA")
    if "province" not in filter:
        return country, ""
    if not re.fullmatch("(CA-)?(AB|BC|MB|NB|NL|NS|NT|NU|ON|PE|QC|SK|YT)", province):
        raise ValueError(f"invalid province {filter['province']!r}: use a Canadian province, such as ON or CA-ON")
    if country != "CA":
        raise ValueError("province needs country CA")
    return country, "CA-" + province.removeprefix("CA-")


def _covers(entry: CountryEligibility, country: str, province: str) -> bool:
    """Reports whether residents of a country are eligible and, if a province is given, whether a source says so of it."""
    if entry["country"] != country or entry["status"] != "eligible":
        return False
    if not province:
        return True
    included = entry["allRegions"] is True or province in entry["includedRegions"]
    return bool(entry["sourceUrls"]) and province not in entry["excludedRegions"] and included


# The forms of ISO 8601 that name a day or an instant, extended and basic.
_INSTANTS = [
    re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:T(\d\d)(?::(\d\d)(?::(\d\d))?)?(?:[.,](\d+))?(?:Z|([+-]\d\d)(?::?(\d\d))?))?", re.ASCII),
    re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(?:(\d\d)(\d\d)?)?(?:[.,](\d+))?(?:Z|([+-]\d\d)(?::?(\d\d))?))?", re.ASCII),
]


def _instant(at: str | date) -> int:
    """Returns an instant in nanoseconds since the year 1."""
    text = at if isinstance(at, str) else text_of(at)
    parts = _INSTANTS[0].fullmatch(text) or _INSTANTS[1].fullmatch(text)
    invalid = ValueError(f"invalid time {text!r}: use a date, or a timestamp with an offset")
    if not parts:
        raise invalid
    year, month, day, hour, minute, second, _, offset_hour, offset_minute = (int(part or 0) for part in parts.groups())
    unit = 3600 if parts[5] is None else 60 if parts[6] is None else 1  # seconds of the fraction
    rest = int(((parts[7] or "") + "000000000")[:9]) * unit
    end_of_day = hour == 24 and minute == second == rest == 0
    try:
        days = date(year, month, day).toordinal()
    except ValueError:
        raise invalid from None
    if hour > 23 and not end_of_day or minute > 59 or second > 59 or abs(offset_hour) > 23 or offset_minute > 59:
        raise invalid
    if (parts[8] or "").startswith("-"):
        offset_minute = -offset_minute
    seconds = days * 86400 + (hour - offset_hour) * 3600 + (minute - offset_minute) * 60 + second
    return seconds * 1_000_000_000 + rest


# Letters whose decomposition is not what people type for them.
_SPELLED = str.maketrans(
    {"ß": "ss", "œ": "oe", "æ": "ae", "ø": "o", "đ": "d", "ð": "d", "ł": "l", "þ": "th", "ħ": "h", "ı": "i", "ς": "σ"}
)


def _words(text: str) -> list[str]:
    """Returns the words of text in the form in which the search compares them: without case, accents and Unicode forms."""
    plain: list[str] = []
    for letter in unicodedata.normalize("NFKD", text).lower().translate(_SPELLED):
        kind = unicodedata.category(letter)
        if kind[0] in "LN":
            plain.append(letter)
        elif kind[0] != "M" and kind != "Cf":
            plain.append(" ")
    return "".join(plain).split()


def _begin(words: list[str], text: list[str]) -> bool:
    """Reports whether each of the words begins one of text."""
    return all(any(of.startswith(word) for of in text) for word in words)
