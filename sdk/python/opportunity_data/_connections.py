"""Connections to the service."""

from __future__ import annotations

import base64
import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass


class Connections:
    """Sends requests to one address and keeps connections open for the next request. It is safe for use by several threads.

    It honors the environment variables http_proxy, https_proxy and no_proxy.
    """

    def __init__(self, base: str) -> None:
        self._base = urlsplit(base)
        self._proxy = None if proxy_bypass(self._base.netloc) else getproxies().get(self._base.scheme)
        self._idle: list[http.client.HTTPConnection] = []

    @contextmanager
    def get(self, path: str, headers: dict[str, str], timeout: float) -> Iterator[http.client.HTTPResponse]:
        """Sends a GET and returns the response, whose body the caller reads to the end."""
        connection, response = self._send(path, headers, timeout)
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

    def _send(
        self, path: str, headers: dict[str, str], timeout: float
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        try:
            connection = self._idle.pop()
        except IndexError:
            pass
        else:
            try:
                connection.sock.settimeout(timeout)
                return self._exchange(connection, path, headers)
            except ConnectionError:  # the server closed it while it was idle
                connection.close()
        return self._exchange(self._connection(timeout), path, headers)

    def _exchange(
        self, connection: http.client.HTTPConnection, path: str, headers: dict[str, str]
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        if self._proxy and self._base.scheme == "http":  # such a proxy needs the whole URL
            path = self._base.geturl() + path
            headers = headers | _authorization(self._proxy)
        try:
            connection.request("GET", path, headers=headers)
            return connection, connection.getresponse()
        except BaseException:
            connection.close()
            raise

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._base.scheme == "https" else http.client.HTTPConnection
        if not self._proxy:
            return kind(self._base.netloc, timeout=timeout)
        connection = kind(urlsplit(self._proxy).netloc.rpartition("@")[2], timeout=timeout)
        if self._base.scheme == "https":
            connection.set_tunnel(self._base.netloc, headers=_authorization(self._proxy))
        return connection


def _authorization(proxy: str) -> dict[str, str]:
    """Returns the header with the user and password of a proxy's address, if it has them."""
    user, at, _ = urlsplit(proxy).netloc.rpartition("@")
    return {"Proxy-Authorization": "Basic " + base64.b64encode(unquote(user).encode()).decode()} if at else {}
