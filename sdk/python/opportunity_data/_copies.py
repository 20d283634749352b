"""Stores that keep a copy in files or in SQLite."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ._columns import COLUMNS, SCHEMA
from ._sync import Changes, SyncState
from ._types import Opportunity

_SDK = "python"


class FileCopy:
    """A store that writes all records to a file: CSV if its name ends in .csv, otherwise one JSON object on each line.

    A file beside it, whose name ends in .copy.json, has the records and the state.

    The file has the status of each record at the time of the last sync. In CSV, a text that a spreadsheet would take for a formula begins
    with an apostrophe.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Opens the copy in a file, which may not exist yet."""
        self._path = Path(path)
        self._memory = self._path.with_name(self._path.name + ".copy.json")
        self._content: dict[str, Any] = {"sdk": _SDK, "state": None, "records": {}}
        if self._memory.exists():
            self._content = json.loads(self._memory.read_text("utf-8"))

    def state(self) -> SyncState | None:
        """Returns the progress of the copy. Another SDK's is not used: the next sync then reads everything."""
        state = self._content["state"]
        return SyncState(**state) if state and self._content["sdk"] == _SDK else None

    def ids(self) -> list[str]:
        """Returns the ids of the copied records."""
        return list(self._content["records"])

    def apply(self, changes: Changes) -> None:
        """Replaces both files. A crash leaves the old ones, or an old file of records that the next apply replaces."""
        records = self._content["records"]
        for record in changes.put:
            records[record["id"]] = record
        for id in changes.remove:
            records.pop(id, None)
        self._content |= {"sdk": _SDK, "state": vars(changes.state)}
        _replace(self._memory, _json(self._content))
        now = datetime.now(UTC)
        current = [_current(records[id], now) for id in sorted(records)]
        lines = _csv(current) if self._path.suffix == ".csv" else (_json(record) + "\n" for record in current)
        _replace(self._path, "".join(lines))


class SQLiteCopy:
    """A store in an SQLite database. Its view opportunities has a column for each value."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Opens the database in a file, which may not exist yet."""
        # An absolute path, because SQLite has names with a meaning, such as :memory:.
        self._database = sqlite3.connect(os.path.abspath(path), check_same_thread=False)
        self._database.executescript(SCHEMA)

    def close(self) -> None:
        """Closes the database."""
        self._database.close()

    def state(self) -> SyncState | None:
        """Returns the progress of the copy."""
        row = self._database.execute("SELECT state FROM sync_state WHERE sdk = ?", (_SDK,)).fetchone()
        return SyncState(**json.loads(row[0])) if row else None

    def ids(self) -> list[str]:
        """Returns the ids of the copied records."""
        return [row[0] for row in self._database.execute("SELECT id FROM records")]

    def apply(self, changes: Changes) -> None:
        """Changes records and state in one transaction."""
        with self._database as database:
            records = [(record["id"], _json(record)) for record in changes.put]
            database.executemany("INSERT OR REPLACE INTO records (id, record) VALUES (?, ?)", records)
            database.executemany("DELETE FROM records WHERE id = ?", [(id,) for id in changes.remove])
            state = (_SDK, _json(vars(changes.state)))
            database.execute("INSERT OR REPLACE INTO sync_state (sdk, state) VALUES (?, ?)", state)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _replace(path: Path, content: str) -> None:
    """Writes a new file and then renames it, so a crash leaves the old one."""
    new = path.with_name(path.name + ".new")
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8", newline="") as file:
        file.write(content)
    os.replace(new, path)


def _current(record: Opportunity, now: datetime) -> Opportunity:
    """Returns a record with the status that it has now: it becomes stale without a change."""
    verification = record["verification"]
    until = verification["freshUntil"]
    if verification["status"] == "verified" and until is not None and datetime.fromisoformat(until) < now:
        return {**record, "verification": {**verification, "status": "stale"}}
    return record


def _csv(records: list[Opportunity]) -> Iterator[str]:
    yield ",".join(name for name, _ in COLUMNS) + "\r\n"
    for record in records:
        yield ",".join(_cell(_value(record, path)) for _, path in COLUMNS) + "\r\n"


def _value(record: Any, path: str) -> Any:
    for name in path.split(".")[1:]:
        record = record[name] if record else None
    return record


# Matches a formula at the start of a cell, or after a semicolon, which separates cells in some countries. Before it there can be
# apostrophes, and characters that show nothing, which spreadsheets skip.
_FORMULA = re.compile(
    r"(^|;)('*[\x00-\x20\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f"
    r"\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff]*[=+\-@＝＋－＠])"
)


def _cell(value: Any) -> str:
    """Returns a value in CSV: nothing for null, and JSON for lists and objects."""
    if value is None:
        return ""
    if isinstance(value, int | float):
        return _json(value)
    text = value if isinstance(value, str) else _json(value)
    safe = _FORMULA.sub(r"\1'\2", re.sub(r"[\r\n\t]+", " ", text))
    return '"' + safe.replace('"', '""') + '"'
