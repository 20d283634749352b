from __future__ import annotations

import http.client
import itertools
import json
import os
import re
import sys
import threading
import time
import traceback
import unittest
from datetime import UTC, date, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from unittest import mock

from opportunity_data import Cancelled, Client, OpportunityError

RECORD = b'{"data": {"id": "a", "verification": {"lastCheckedAt": null, "freshUntil": null}}, "meta": {"version": "1"}}'


class ClientTest(unittest.TestCase):
    def test_key_never_appears_in_errors_or_printed_clients(self) -> None:
        key = "oda_live_topsecret"
        for url, given in (
            ("http://localhost", key + "\n"),
            ("http://localhost/path?", key),
            ("http://localhost/#top", key),
            ("http://:8080", key),
            ("http://user@localhost", key),
            ("localhost:8080", key),
        ):
            with self.assertRaises(ValueError) as raised:
                Client(url=url, key=given)
            self.assertNotIn("topsecret", str(raised.exception))
        client = Client(url="http://127.0.0.1:1", key=key, retry_budget=0)
        with self.assertRaises(OpportunityError) as failed:
            client.opportunity("a")
        printed = repr(client) + repr(vars(client)) + repr(vars(client._requester))
        self.assertNotIn("topsecret", printed + "".join(traceback.format_exception(failed.exception)))

    def test_address_and_key_come_from_the_environment(self) -> None:
        with mock.patch.dict(os.environ, clear=True):
            self.assertRaisesRegex(ValueError, "OPPORTUNITY_KEY", Client, url="http://localhost")
            self.assertRaisesRegex(ValueError, "OPPORTUNITY_URL", Client, key="k")
        with mock.patch.dict(os.environ, OPPORTUNITY_URL="http://localhost/", OPPORTUNITY_KEY="k"):
            Client()

    def test_refuses_to_run_in_a_browser(self) -> None:
        with mock.patch.object(sys, "platform", "emscripten"):
            self.assertRaisesRegex(RuntimeError, "browser", Client, url="http://localhost", key="k")

    def test_unknown_filter_is_an_error_before_any_request(self) -> None:
        client = Client(url="http://127.0.0.1:1", key="k")
        unknown: Any = {"limit": 5}
        self.assertRaisesRegex(TypeError, "unknown filter limit; use page_size", client.opportunities, **unknown)

    def test_times_are_filters(self) -> None:
        asked: list[str] = []
        body = {"data": [], "pagination": {"limit": 100, "hasMore": False, "next": None}, "meta": {"version": "1"}}
        with Server(200, json.dumps(body).encode(), {}, on_path=asked.append) as url:
            client = Client(url=url, key="k")
            list(client.opportunities(checked_after=date(2026, 11, 1), page_size=1))
            list(client.opportunities(checked_after=datetime(2026, 11, 1, tzinfo=UTC), page_size=1))
            self.assertRaisesRegex(ValueError, "time zone", list, client.opportunities(checked_after=datetime(2026, 11, 1)))
        path = "/api/v1/opportunities?limit=1&checked_after=2026-11-01"
        self.assertEqual(asked, [path, path + "T00%3A00%3A00%2B00%3A00"])

    def test_cancel_ends_waits_and_calls(self) -> None:
        cancel = threading.Event()
        with Server(503, b"", {"Retry-After": "60"}, on_request=cancel.set) as url:
            client = Client(url=url, key="k", cancel=cancel)
            self.assertRaises(Cancelled, client.opportunity, "a")

    def test_deadline_ends_a_body_that_arrives_slowly(self) -> None:
        slowly = itertools.chain(itertools.repeat(b" ", 50_000), itertools.repeat(b""))
        with Server(200, b"{}", {}) as url, mock.patch.object(http.client.HTTPResponse, "read1", side_effect=slowly):
            client = Client(url=url, key="k", retry_budget=0)
            self.assertRaises(TimeoutError, client.within(0.05).opportunity, "a")
            self.assertEqual(next(slowly), b" ")

    def test_deadline_bounds_a_connection_and_spares_a_useless_wait(self) -> None:
        with Server(503, b"", {"Retry-After": "60"}) as url:
            client = Client(url=url, key="k", sleep=self.fail).within(50)
            self.assertRaises(TimeoutError, client.opportunity, "a")
        with mock.patch("socket.create_connection", side_effect=OSError) as opened:
            self.assertRaises(OpportunityError, Client(url=url, key="k", retry_budget=0).within(5).opportunity, "a")
        self.assertLessEqual(opened.call_args.args[1], 5)

    def test_body_that_breaks_off_is_a_failed_connection(self) -> None:
        with Server(200, b"{}", {}) as url, mock.patch.object(http.client.HTTPResponse, "read1", return_value=b""):
            with self.assertRaises(OpportunityError) as raised:
                Client(url=url, key="k", retry_budget=0).opportunity("a")
        self.assertEqual(raised.exception.code, "connection_failed")

    def test_deadline_covers_every_page_and_leaves_the_client_as_it_is(self) -> None:
        body = {"data": [], "pagination": {"limit": 100, "hasMore": True, "next": "/api/v1/opportunities?page=2"}, "meta": {"version": "1"}}
        with Server(200, json.dumps(body).encode(), {}) as url:
            client = Client(url=url, key="k")
            pages = client.within(60).opportunity_pages()
            next(pages)
            with mock.patch("time.monotonic", return_value=time.monotonic() + 60):
                self.assertRaises(TimeoutError, next, pages)
            next(client.opportunity_pages())

    def test_calls_share_a_connection_and_replace_one_that_the_server_closed(self) -> None:
        for closes, want in ((False, 1), (True, 2)):
            server = Server(200, RECORD, {}, closes=closes)
            with server as url, Client(url=url, key="k", retry_budget=0) as client:
                for _ in range(2):
                    client.opportunity("a")
            self.assertEqual(server.connections, want)

    def test_proxies_of_the_environment(self) -> None:
        asked: list[str] = []
        with Server(200, RECORD, {}, on_path=asked.append) as url, Server(200, RECORD, {}, on_path=asked.append) as direct:
            address = url.removeprefix("http://")
            for proxy in (address, url, f"http://user:word@{address}"):  # the first without a scheme
                with mock.patch.dict(os.environ, http_proxy=proxy, https_proxy=proxy, no_proxy="127.0.0.1"):
                    with Client(url="http://api.example/base", key="k", retry_budget=0) as client:
                        client.opportunity("a")
                        client.opportunity("b")
                    tunnelled = Client(url="https://api.example", key="k", retry_budget=0)
                    self.assertRaisesRegex(OpportunityError, "501", tunnelled.opportunity, "a")  # which is no tunnel
                    Client(url=direct, key="k").opportunity("c")
                base, path = "http://api.example/base", "/api/v1/opportunities/"
                self.assertEqual(asked, [base + path + "a", base + path + "b", path + "c"])
                asked.clear()

    def test_user_and_password_of_a_proxy_are_sent_to_it(self) -> None:
        sent: list[Any] = []

        class Proxy(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                sent.append((self.command, self.headers["Proxy-Authorization"], self.headers["Authorization"]))
                self.send_error(502)

            do_CONNECT = do_GET

            def log_message(self, format: str, *args: Any) -> None:
                pass

        server = Server(200, b"", {}, handler=Proxy)
        with server as url:
            proxy = url.replace("//", "//user:word@")
            with mock.patch.dict(os.environ, http_proxy=proxy, https_proxy=proxy, no_proxy=""):
                for scheme in ("http", "https"):
                    client = Client(url=f"{scheme}://api.example", key="k", retry_budget=0)
                    self.assertRaises(OpportunityError, client.opportunity, "a")
        basic = "Basic dXNlcjp3b3Jk"
        self.assertEqual(sent, [("GET", basic, "Bearer k"), ("CONNECT", basic, None)])

    def test_a_proxy_that_cannot_be_used_is_a_failed_connection(self) -> None:
        for proxy in ("socks5://127.0.0.1:1", "http://"):
            with mock.patch.dict(os.environ, http_proxy=proxy, no_proxy=""), self.assertRaises(OpportunityError) as raised:
                Client(url="http://api.example", key="k", retry_budget=0).opportunity("a")
            self.assertEqual(raised.exception.code, "connection_failed")

    def test_failed_connection_names_the_address_and_the_cause(self) -> None:
        for url in ("http://127.0.0.1:1", "http://a..b"):
            attempts: list[int] = []
            client = Client(url=url, key="k", sleep=lambda _: None, on_retry=lambda r: attempts.append(r.attempt))
            cause = f"no response from {url}: cannot connect to {url.removeprefix('http://')}: "
            self.assertRaisesRegex(OpportunityError, re.escape(cause), client.opportunity, "a")
            self.assertEqual(attempts, [1])


class Server:
    """A server with one response. It calls on_request for each request."""

    def __init__(
        self,
        status: int,
        body: bytes,
        headers: dict[str, str],
        on_request: Any = lambda: None,
        on_path: Any = lambda path: None,
        closes: bool = True,
        handler: type[BaseHTTPRequestHandler] | None = None,
    ) -> None:
        self.connections = 0
        counted = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self.close_connection = closes  # without a word
                on_request()
                on_path(self.path)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

            def handle(self) -> None:
                counted.connections += 1
                try:
                    super().handle()
                except ConnectionError:  # the client left first
                    pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler or Handler)

    def __enter__(self) -> str:
        threading.Thread(target=self.server.serve_forever, args=(0.01,)).start()
        return f"http://127.0.0.1:{self.server.server_port}"

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


if __name__ == "__main__":
    unittest.main()
