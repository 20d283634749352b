"""Runs the cases that all SDKs must pass; sdk/conformance/README.md describes them."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import os
import re
import sqlite3
import sys
import tempfile
import threading
import unittest
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import parse_qsl, urlsplit

from opportunity_data import (
    AsyncClient,
    Changes,
    Client,
    FileCopy,
    MemoryCache,
    OpportunityError,
    ProofError,
    SQLiteCopy,
    SyncState,
    __version__,
    matches,
    verify_event,
)
from opportunity_data._copies import _cell

SUITE = Path(__file__).resolve().parents[2] / "conformance"
FIXTURES = json.loads((SUITE / "fixtures" / "fixtures.json").read_text())
KEY = "oda_test_conformance"


class ConformanceTest(unittest.TestCase):
    def client(self, client: Client, deadline: float | None) -> Any:
        """Returns the client under test, whose calls end within a deadline."""
        return client if deadline is None else client.within(deadline)

    def test_cases(self) -> None:
        files = sorted(SUITE.glob("*.json"))
        self.assertTrue(files)
        for file in files:
            for case in expand(json.loads(file.read_text())):
                with self.subTest(f"{file.stem}: {case['name']}"):
                    self.run_case(case)

    def run_case(self, case: dict[str, Any]) -> None:
        player = Player(case["exchanges"])
        options = case.get("options", {})
        if options.get("refuse"):
            player.close()
        waits: list[float] = []
        retries: list[Any] = []
        now = datetime.now(UTC)
        client: Any = Client(
            url=f"http://127.0.0.1:{player.server.server_port}{options.get('path', '')}",
            key=KEY,
            retry_budget=options.get("retryBudget", 90.0),
            timeout=options.get("timeout", 30.0),
            user_agent=options.get("userAgent", ""),
            on_retry=lambda r: retries.append({"attempt": r.attempt, "wait": r.wait, "code": r.error.code}),
            cache=MemoryCache(options["cache"]) if "cache" in options else None,
            sleep=None if "deadline" in options else lambda seconds: waits.append(seconds),
            now=lambda: now,
        )
        client = self.client(client, options.get("deadline"))
        store = MemoryStore(case.get("copy", {}))
        try:
            for call in case["calls"]:
                waits.clear()
                retries.clear()
                if "now" in call:
                    now = datetime.fromisoformat(call["now"])
                got = outcome(client, call, store)
                self.assertEqual(player.failures, [])
                self.compare({**got, "waits": waits, "retries": retries}, call["want"])
            if "deadline" not in options:  # which can end a call before its request
                self.assertEqual(player.played, len(case["exchanges"]), "number of requests")
        finally:
            client.close()
            player.close()

    def compare(self, got: dict[str, Any], want: dict[str, Any]) -> None:
        """Asserts that got contains every entry of want. An unexpected error fails."""
        want = dict(want)
        if "waits" in want:
            ranges = want.pop("waits")
            self.assertEqual(len(got["waits"]), len(ranges), got["waits"])
            for wait, (start, end) in zip(got["waits"], ranges):
                self.assertTrue(start <= wait <= end, got["waits"])
        for name, time in want.pop("state", {}).items():
            self.assertEqual(datetime.fromisoformat(got["state"][name]), datetime.fromisoformat(time), name)
        if "error" not in want:
            self.assertNotIn("error", got)
        self.contains(got, want, "outcome")

    def contains(self, got: Any, want: Any, at: str) -> None:
        if isinstance(want, dict):
            for name in want:
                self.assertIn(name, got, at)
                self.contains(got[name], want[name], f"{at}.{name}")
        elif isinstance(want, list):
            self.assertEqual(len(got), len(want), at)
            for i, value in enumerate(want):
                self.contains(got[i], value, f"{at}[{i}]")
        else:
            self.assertEqual(got, want, at)


class MatchTest(unittest.TestCase):
    def test_matches_answers_as_the_api(self) -> None:
        file = json.loads((SUITE / "matches" / "cases.json").read_text(encoding="utf-8"))
        self.assertGreaterEqual(len(file["cases"]), 500)
        for case in file["cases"]:
            record, now = file["records"][case["record"]], datetime.fromisoformat(case["now"])
            self.assertEqual(matches(record, filter_of(case["filter"]), now), case["want"], case)
        for rejected in json.loads((SUITE / "matches" / "rejected.json").read_text(encoding="utf-8")):
            with self.assertRaises((ValueError, TypeError), msg=rejected):
                matches(file["records"][0], filter_of(rejected))


    def test_the_view_has_the_rules_of_country_and_province(self) -> None:
        file = json.loads((SUITE / "matches" / "cases.json").read_text(encoding="utf-8"))
        with tempfile.TemporaryDirectory() as dir, contextlib.closing(SQLiteCopy(Path(dir) / "copy.db")) as copy:
            copy.apply(Changes(file["records"], [], SyncState(None, "2026-11-22T12:00:00Z")))
            with contextlib.closing(sqlite3.connect(Path(dir) / "copy.db")) as opened:
                rows = list(opened.execute("SELECT record, country, region FROM eligibility"))
        self.assertEqual(len(rows), len(set(rows)))
        compared = 0
        for case in file["cases"]:
            country, province = case["filter"].get("country"), case["filter"].get("province")
            if set(case["filter"]) <= {"country", "province"}:
                region = province and "CA-" + province.upper().removeprefix("CA-")
                row = (file["records"][case["record"]]["id"], country.upper(), region)
                self.assertEqual(row in rows, case["want"], case)
                compared += 1
        self.assertGreater(compared, 200)


def filter_of(names: dict[str, Any]) -> Any:
    """Returns a filter in camel case with the names of Python."""
    return {re.sub("[A-Z]", lambda m: "_" + m[0].lower(), name): value for name, value in names.items()}


class ExportTest(unittest.TestCase):
    def test_cells_have_no_formulas(self) -> None:
        for case in json.loads((SUITE / "fixtures" / "formulas.json").read_text(encoding="utf-8")):
            self.assertEqual(_cell(case["text"]), f'"{case["cell"]}"')

    def test_copies_have_the_same_content_as_those_of_other_sdks(self) -> None:
        exports = expand(json.loads((SUITE / "fixtures" / "exports.json").read_text()))
        with tempfile.TemporaryDirectory() as name:
            dir = Path(name)
            for step in exports["steps"]:  # each opens the copies anew
                database = SQLiteCopy(dir / "copy.db")
                for copy in (FileCopy(dir / "copy.csv"), FileCopy(dir / "copy.ndjson"), database):
                    self.assertEqual(len(list(copy.ids())), 3 if copy.state() else 0)
                    copy.apply(Changes(step["put"], step["remove"], SyncState(None, "2026-11-22T12:00:00Z")))
                database.close()
            self.assertEqual((dir / "copy.csv").read_bytes().decode(), "".join(line + "\r\n" for line in exports["csv"]))
            records = [json.loads(line) for line in (dir / "copy.ndjson").read_text().splitlines()]
            self.assertEqual([record["id"] for record in records], ["a", "b"])
            self.assertEqual(records[0]["verification"]["status"], "stale")
            with contextlib.closing(sqlite3.connect(dir / "copy.db")) as opened:
                self.assertEqual([list(row) for row in opened.execute(exports["query"])], exports["rows"])

    def test_a_copy_is_the_named_file(self) -> None:
        with tempfile.TemporaryDirectory() as dir, contextlib.chdir(dir):
            names = [":memory:", "file:a.db", "file:a.db?mode=memory", "a#b.db", "a%20b.db", "q?mode=ro.db", "copy.csv#x", "copy.csv?y"]
            for name in names:
                if "csv" in name:
                    FileCopy(name).apply(Changes([], [], SyncState(None, "2026-11-22T12:00:00Z")))
                    os.remove(name + ".copy.json")
                else:
                    SQLiteCopy(name).close()
            self.assertEqual(sorted(os.listdir()), sorted(names))


class ProofTest(unittest.TestCase):
    cases = {case["name"]: case for case in json.loads((SUITE / "proofs" / "cases.json").read_text())}

    def test_cases(self) -> None:
        for case in self.cases.values():
            with self.subTest(case["name"]):
                keys, want = case["keys"], case["want"]
                proof = case["proof"] + case["proof"].splitlines(True)[-1] * case["repeat"] if "repeat" in case else case["proof"]
                if "reason" in want:
                    with self.assertRaises(ProofError) as caught:
                        verify_event(proof, **keys)
                    self.assertEqual(caught.exception.reason, want["reason"])
                else:
                    got = verify_event(proof, **keys)
                    seen = [{"name": s.name, "at": s.at.strftime("%Y-%m-%dT%H:%M:%SZ")} for s in got.witnesses]
                    self.assertEqual(got.event, want["event"])
                    self.assertEqual((got.origin, got.size, got.index), (want["origin"], want["size"], want.get("index", 0)))
                    self.assertEqual((got.recorded_at, seen), (want["recordedAt"], want.get("witnesses", [])))

    def test_without_cryptography_nothing_is_proved(self) -> None:
        with patch.dict(sys.modules, {"cryptography.exceptions": None}), self.assertRaisesRegex(RuntimeError, r"opportunity-data\[proof\]"):
            verify_event("", log=[])


class AsyncConformanceTest(ConformanceTest):
    def client(self, client: Client, deadline: float | None) -> Any:
        return Blocking(client, deadline)


class Blocking:
    """Waits for the calls of an AsyncClient."""

    def __init__(self, client: Client, deadline: float | None) -> None:
        self.client, self.deadline, self.runner = AsyncClient(client), deadline, asyncio.Runner()

    def wait(self, call: Any) -> Any:
        async def bounded() -> Any:
            async with asyncio.timeout(self.deadline):
                return await call

        return self.runner.run(bounded())

    def each(self, items: Any) -> Iterator[Any]:
        try:
            while True:
                yield self.wait(anext(items))
        except StopAsyncIteration:
            return

    def close(self) -> None:
        self.runner.run(self.client.aclose())
        self.runner.close()

    def opportunity(self, id: str) -> Any:
        return self.wait(self.client.opportunity(id))

    def event_proof(self, id: str) -> Any:
        return self.wait(self.client.event_proof(id))

    def sync(self, store: Any, **options: Any) -> Any:
        return self.wait(self.client.sync(store, **options))

    def opportunities(self, **filter: Any) -> Any:
        return self.each(self.client.opportunities(**filter))

    def opportunity_pages(self, **filter: Any) -> Any:
        return self.each(self.client.opportunity_pages(**filter))

    def search(self, **filter: Any) -> Any:
        return self.each(self.client.search(**filter))

    def history(self, id: str) -> Any:
        return self.each(self.client.history(id))

    def changes(self, **filter: Any) -> Any:
        return self.each(self.client.changes(**filter))

    def change_pages(self, **filter: Any) -> Any:
        return self.each(self.client.change_pages(**filter))


class Player:
    """A server that checks requests and sends the responses of a case."""

    def __init__(self, exchanges: list[dict[str, Any]]) -> None:
        self.exchanges = exchanges
        self.played = 0
        self.failures: list[str] = []
        self.closing = threading.Event()
        player = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # head and body are sent apart

            def do_GET(self) -> None:
                player.play(self)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.01,)).start()

    def close(self) -> None:
        self.closing.set()
        self.server.shutdown()
        self.server.server_close()

    def play(self, request: BaseHTTPRequestHandler) -> None:
        if self.played == len(self.exchanges):
            self.failures.append(f"unexpected request {request.path}")
            request.send_error(418)
            return
        port = str(self.server.server_port)
        exchange = json.loads(json.dumps(self.exchanges[self.played]).replace("{port}", port))
        self.played += 1
        url = urlsplit(request.path)
        self.same("path", url.path, exchange["path"])
        self.same("query", dict(parse_qsl(url.query)), exchange["query"])
        self.same("Host", request.headers["Host"], f"127.0.0.1:{port}")
        self.same("Authorization", request.headers["Authorization"], None if exchange.get("public") else f"Bearer {KEY}")
        for name, value in exchange.get("headers", {}).items():
            self.same(name, request.headers[name], value and value.replace("{sdk}", f"opportunity-python/{__version__}"))
        if exchange.get("drop"):
            request.close_connection = True
            return
        if exchange.get("hang"):
            self.closing.wait()
            request.close_connection = True
            return
        body = exchange.get("text", json.dumps(exchange["body"]) if "body" in exchange else "").encode()
        if exchange.get("gzip"):
            body = gzip.compress(body)
        request.wfile.write(b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n" * exchange.get("early", 0))
        request.send_response(exchange.get("status", 200))
        for name, value in {"Content-Type": "application/json", **exchange.get("send", {})}.items():
            request.send_header(name, value)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    def same(self, what: str, got: object, want: object) -> None:
        if got != want:
            self.failures.append(f"got {what} {got!r}, want {want!r}")


class MemoryStore:
    def __init__(self, copy: dict[str, Any]) -> None:
        self.records: dict[str, Any] = {id: {"id": id, "summary": s} for id, s in copy.get("records", {}).items()}
        state = copy.get("state")
        self._state = SyncState(state["checkedAfter"], state["fullWalkAt"], state.get("cursor")) if state else None

    def state(self) -> SyncState | None:
        return self._state

    def ids(self) -> list[str]:
        return list(self.records)

    def apply(self, changes: Changes) -> None:
        self.records |= {record["id"]: record for record in changes.put}
        for id in changes.remove:
            self.records.pop(id, None)
        self._state = changes.state


def outcome(client: Any, call: dict[str, Any], store: MemoryStore) -> dict[str, Any]:
    """Makes a call and returns everything that a case can compare."""
    got: dict[str, Any] = {}
    found: list[Any] = []
    filter = filter_of(call.get("filter", {}))

    def collect(items: Iterator[Any]) -> None:
        for item in islice(items, call.get("take")):
            found.append(item)

    try:
        match call["do"]:
            case "opportunities":
                collect(client.opportunities(**filter))
            case "search":
                collect(client.search(**filter))
            case "history":
                collect(client.history(call["id"]))
            case "opportunityPages":
                collect(client.opportunity_pages(**filter))
            case "changes":
                collect(client.changes(after=call["after"]))
            case "changePages":
                collect(client.change_pages(after=call["after"]))
            case "opportunity":
                detail = client.opportunity(call["id"])
                got |= {"id": detail.data["id"], "remote": [detail.data["facts"]["remote"]]}
                got |= {"notModified": detail.response.not_modified, "requestId": detail.response.request_id}
            case "eventProof":
                got["proof"] = client.event_proof(call["id"])
            case "sync":
                every = timedelta(seconds=call["fullEvery"]) if "fullEvery" in call else None
                got |= vars(client.sync(store, full_every=every))
            case unknown:
                raise AssertionError(f"unknown call {unknown}")
    except TimeoutError:
        got["timedOut"] = True
    except OpportunityError as error:
        got["error"] = {
            "status": error.status,
            "code": error.code,
            "message": error.message,
            "requestId": error.request_id,
            "retryAfter": error.retry_after,
            "documentation": error.documentation,
            "text": str(error),
        }
    if call["do"] == "opportunityPages":
        got["pages"] = [
            {
                "ids": [record["id"] for record in page.data],
                "page": page.pagination["page"],
                "total": page.pagination["total"],
                "remaining": page.response.rate_limit.remaining,
                "reset": page.response.rate_limit.reset.isoformat().replace("+00:00", "Z"),
                "requestId": page.response.request_id,
                "notModified": page.response.not_modified,
                "minuteLimit": {
                    **vars(page.response.minute_limit),
                    "reset": page.response.minute_limit.reset.isoformat().replace("+00:00", "Z"),
                },
            }
            for page in found
        ]
    elif call["do"] == "changes":
        got["ids"] = [change["id"] for change in found]
        got["changes"] = [change["change"] for change in found]
    elif call["do"] == "changePages":
        got["cursors"] = [page.pagination["cursor"] for page in found]
    elif call["do"] in ("opportunities", "search", "history"):
        got["ids"] = [item["id"] for item in found]
        got["remote"] = [(item["facts"] or {}).get("remote") for item in found]
    got["copy"] = {id: record["summary"] for id, record in store.records.items()}
    if state := store.state():
        got["cursor"] = state.cursor or ""
        got["state"] = {"checkedAfter": state.checked_after, "fullWalkAt": state.full_walk_at}
    return got


def expand(value: Any) -> Any:
    """Puts fixtures in the place of {"$record": overrides} and the like."""
    if isinstance(value, list):
        return [expand(v) for v in value]
    if not isinstance(value, dict):
        return value
    for name, overrides in value.items():
        if name.startswith("$"):
            return merged(FIXTURES[name[1:]], overrides)
    return {name: expand(v) for name, v in value.items()}


def merged(base: Any, overrides: Any) -> Any:
    if not isinstance(base, dict) or not isinstance(overrides, dict):
        return overrides
    return {**base, **{name: merged(base.get(name), value) for name, value in overrides.items()}}


if __name__ == "__main__":
    unittest.main()
