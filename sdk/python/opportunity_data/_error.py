"""Errors of calls."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._request import Reply

CONNECTION_FAILED = "connection_failed"
INVALID_RESPONSE = "invalid_response"


class Cancelled(Exception):
    """The cancel event of the client was set."""


class OpportunityError(Exception):
    """A failed call. Its text never contains the key."""

    status: int
    """HTTP status, or 0 if there was no response."""

    code: str
    """A value of Code; "connection_failed" if there was no complete response, with the cause in __cause__; or "invalid_response" if the
    response is not one of the API. A later version of the API may add codes."""

    message: str
    """For people; the wording may change."""

    request_id: str
    """X-Request-Id; include it when you report a problem."""

    retry_after: int
    """Seconds after which the same call can succeed, or 0 if not stated."""

    documentation: str
    """URL of the section that explains the code."""

    _unreachable = False  # no connection could be opened

    def __init__(
        self,
        code: str,
        message: str,
        *,
        status: int = 0,
        request_id: str = "",
        retry_after: int = 0,
        documentation: str = "",
    ) -> None:
        details = f" (status {status}, request {request_id})" if status else ""
        super().__init__(f"{code}: {message}{details}")
        self.code = code
        self.message = message
        self.status = status
        self.request_id = request_id
        self.retry_after = retry_after
        self.documentation = documentation


def invalid_response(reply: Reply, message: str) -> OpportunityError:
    """Returns the error of a response that is not one of the API."""
    return OpportunityError(INVALID_RESPONSE, message, status=reply.status, request_id=reply.request_id)


def response_error(reply: Reply, retry_after: int) -> OpportunityError:
    """Returns the error of a response that is not a 200 or 304."""
    try:
        body = json.loads(reply.body)
        texts = [body["error"]["code"], body["error"]["message"], body["documentation"]]
    except (ValueError, TypeError, KeyError, RecursionError):
        texts = [""]
    if texts[0] == "" or not all(isinstance(text, str) for text in texts):
        error = invalid_response(reply, "the response is not an error of the API")
    else:
        code, message, url = texts
        error = OpportunityError(code, message, status=reply.status, request_id=reply.request_id, documentation=url)
    error.retry_after = retry_after
    return error
