"""Connections to the service."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit
from urllib.request import BaseHandler, OpenerDirector, ProxyHandler, Request


class Unreachable(OSError):
    """No connection could be opened."""


class Connections:
    """Sends requests to one address and keeps connections open for the next request. It is safe for use by several threads.

    It honors the proxies of the environment and the system, as urllib.request does.
    """

    def __init__(self) -> None:
        self._idle: list[http.client.HTTPConnection] = []
        self._opener = OpenerDirector()
        self._opener.add_handler(ProxyHandler())
        self._opener.add_handler(_Handler(self._idle))

    @contextmanager
    def get(self, url: str, headers: dict[str, str], timeout: float) -> Iterator[http.client.HTTPResponse]:
        """Sends a GET and returns the response, whose body the caller reads to the end."""
        try:
            opened: Any = self._opener.open(Request(url, headers=headers), timeout=timeout)
        except ValueError as error:  # of the address of a proxy
            raise Unreachable(str(error)) from error
        if opened is None:
            raise Unreachable("the proxy is not supported: use one with http or https")
        connection, response = opened
        reusable = False
        try:
            yield response
            reusable = response.isclosed() and connection.sock is not None
        finally:
            if reusable:
                self._idle.append(connection)
            else:
                response.close()
                connection.close()

    def close(self) -> None:
        """Closes the connections that no request uses."""
        while self._idle:
            self._idle.pop().close()

    def __del__(self) -> None:
        self.close()


class _Response(http.client.HTTPResponse):
    """A response that skips those before it, such as 103 Early Hints, as HTTPResponse does with 100 Continue."""

    def begin(self) -> None:
        super().begin()
        while 101 < self.status < 200:
            setattr(self, "headers", None)  # so that begin reads the next one
            super().begin()


class _Handler(BaseHandler):
    """Sends the requests of urllib, which a ProxyHandler may have changed, on connections that stay open."""

    def __init__(self, idle: list[http.client.HTTPConnection]) -> None:
        self._idle = idle

    def http_open(self, request: Request) -> Any:
        return self._open(request, http.client.HTTPConnection)

    def https_open(self, request: Request) -> Any:
        return self._open(request, http.client.HTTPSConnection)

    def _open(self, request: Request, kind: type[http.client.HTTPConnection]) -> Any:
        """Returns the connection and the response."""
        headers = dict(request.header_items())
        target = urlsplit(request.full_url)
        tunnel: dict[str, str] | None = None
        if target.scheme == "https" and request.host != target.netloc:
            name = "Proxy-authorization"
            tunnel = {name: headers.pop(name)} if name in headers else {}
        timeout: Any = request.timeout
        try:
            idle = self._idle.pop()
        except IndexError:
            pass
        else:
            try:
                idle.sock.settimeout(timeout)
                return _exchange(idle, request.selector, headers)
            except ConnectionError:  # the server closed it while it was idle
                idle.close()
        connection = kind(request.host, timeout=timeout)
        connection.response_class = _Response
        if tunnel is not None:
            connection.set_tunnel(target.netloc, headers=tunnel)
        try:
            connection.connect()
        except (OSError, http.client.HTTPException, ValueError) as error:  # ValueError of a host that is no name
            connection.close()
            raise Unreachable(f"cannot connect to {request.host}: {error}") from error
        return _exchange(connection, request.selector, headers)


def _exchange(
    connection: http.client.HTTPConnection, path: str, headers: dict[str, str]
) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    try:
        connection.request("GET", path, headers=headers)
        return connection, connection.getresponse()
    except BaseException:
        connection.close()
        raise
