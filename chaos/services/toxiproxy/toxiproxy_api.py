"""A client of toxiproxy's HTTP API: one address per client, a timeout per request, an exception per refusal."""

from __future__ import annotations

import json
from http.client import HTTPConnection, HTTPException
from typing import Any, Final

ANSWER_SECONDS: Final = 5.0
REFUSED: Final = 400


class ToxiproxyError(Exception):
    """The server has refused the request, or its reply cannot be parsed."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"toxiproxy answered {status}: {text}")
        self.status, self.text = status, text


class ToxiproxyApi:
    """A client of one server, given as host:port. Raises OSError without a reply in time."""

    def __init__(self, address: str) -> None:
        self.address = address

    def version(self) -> str:
        return str(self.request("GET", "/version")["version"])

    def request(self, method: str, path: str, *, content: Any = None) -> Any:
        """The reply of the server; None if it is empty."""
        body = None if content is None else json.dumps(content)
        connection = HTTPConnection(self.address, timeout=ANSWER_SECONDS)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json", "User-Agent": "sinkproof"})
            answer = connection.getresponse()
            text = answer.read().decode(errors="replace")
        except HTTPException as error:
            raise ToxiproxyError(0, f"no HTTP: {error}") from error
        finally:
            connection.close()
        if answer.status >= REFUSED:
            raise ToxiproxyError(answer.status, text.strip())
        try:
            return json.loads(text) if text.strip() else None
        except ValueError as error:
            raise ToxiproxyError(answer.status, text[:200]) from error
