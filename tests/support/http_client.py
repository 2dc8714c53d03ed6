"""Sinks that send each checkpoint by HTTP to http_server_of_parts.py. Right: Checked, CheckedFirst, InBulk,
TriedFiveTimes. Wrong, as a status is no exception: Unchecked, CheckedForErrorsOfTheServer, UncheckedFirst, which takes
any status but 200 for "not there", and CheckedThenSentAgain, which takes each error of a server for a request that was
not carried out. InBulkUnchecked does not look at what a reply of 200 says of each document, LastAgain only at how many
were rejected (right: RejectedAgain), and GivesUpAfterFiveTimes does so without a word. ListedByLine looks for a part in
a list that may end too early (right: ListedAsAWhole), and PutAgainAsAWhole sends all that it has under one name, and
again when its time is over (right: PutAgain).
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any, Final

from own_server import OwnServer, port_of
from parts_of_checkpoints import PartsOfCheckpoints

from sinkproof import Claim, Context, Scratch

SERVER: Final = [sys.executable, "-S", str(Path(__file__).with_name("http_server_of_parts.py"))]  # without packages


class PutsParts(PartsOfCheckpoints):
    """Each part has a name of its own."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self.port = port

    def publish(self, name: str, rows: list[Any]) -> None:
        self.checked(self.ask("PUT", name, body=json.dumps(rows)))

    def checked(self, status: int) -> None:
        if status != 200:
            raise ConnectionError(f"the server has answered by {status}")

    def ask(self, method: str, part: str, *, body: str | None = None) -> int:
        connection = HTTPConnection("127.0.0.1", self.port)
        try:
            connection.request(method, f"/{part}", body)
            with connection.getresponse() as response:
                response.read()
                return response.status
        finally:
            connection.close()


class PutsUnchecked(PutsParts):
    def checked(self, status: int) -> None:
        """Nothing."""


class PutsUnlessTheServerFails(PutsParts):
    def checked(self, status: int) -> None:
        if status >= 500:
            super().checked(status)


class PostsParts(PutsParts):
    """What is posted is there twice if it is posted twice; so it asks first."""

    unknown = (404,)

    def publish(self, name: str, rows: list[Any]) -> None:
        status = self.ask("HEAD", name)
        if status != 200:
            if status not in self.unknown:
                self.checked(status)
            self.checked(self.ask("POST", name, body=json.dumps(rows)))


class PostsUnlessTold(PostsParts):
    unknown = (404, 503)


class SendsInBulk(PutsParts):
    """Each row is a document."""

    def publish(self, name: str, rows: list[Any]) -> None:
        documents = (({"create": {"_id": f"{row[0]}-{row[1]}"}}, row) for row in rows)
        body = "".join(f"{json.dumps(line)}\n" for document in documents for line in document)
        connection = HTTPConnection("127.0.0.1", self.port)
        connection.request("POST", "/_bulk", body)
        with connection.getresponse() as response:
            reply = json.loads(response.read())
        connection.close()
        self.checked(response.status)
        self.checked_each(reply)

    def checked_each(self, reply: dict[str, Any]) -> None:
        """Nothing."""


class SendsInBulkChecked(SendsInBulk):
    def checked_each(self, reply: dict[str, Any]) -> None:
        if reply["errors"]:
            raise ConnectionError(f"rejected: {reply['items']}")


class SendsTheLastAgain(SendsInBulk):
    """As many as were rejected."""

    def publish(self, name: str, rows: list[Any]) -> None:
        self.sent = rows
        super().publish(name, rows)

    def checked_each(self, reply: dict[str, Any]) -> None:
        if left := sum("error" in about for item in reply["items"] for about in item.values()):
            self.publish("", self.sent[-left:])


class SendsTheRejectedAgain(SendsTheLastAgain):
    def checked_each(self, reply: dict[str, Any]) -> None:
        results = [about for item in reply["items"] for about in item.values()]
        if left := [row for row, about in zip(self.sent, results, strict=True) if "error" in about]:
            self.publish("", left)


class PostsAgain(PostsParts):
    def ask(self, method: str, part: str, *, body: str | None = None) -> int:
        status = super().ask(method, part, body=body)
        return super().ask(method, part, body=body) if status >= 500 else status


class PostsUnlessListed(PostsParts):
    def ask(self, method: str, part: str, *, body: str | None = None) -> int:
        if method == "POST":
            return super().ask(method, part, body=body)
        connection = HTTPConnection("127.0.0.1", self.port)
        connection.request("GET", "/names")
        with connection.getresponse() as response:
            names = [line.strip() for line in self.lines(response)]
        connection.close()
        return 200 if f"/{part}".encode() in names else 404

    def lines(self, response: HTTPResponse) -> Iterable[bytes]:
        return response


class PostsUnlessListedAsAWhole(PostsUnlessListed):
    def lines(self, response: HTTPResponse) -> Iterable[bytes]:
        return response.read().splitlines()


class PutsAgain(PutsParts):
    def publish(self, name: str, rows: list[Any]) -> None:
        for _ in range(3):
            connection = HTTPConnection("127.0.0.1", self.port, timeout=600)
            try:
                connection.request("PUT", f"/{name}", json.dumps(rows))
                with connection.getresponse() as response:
                    response.read()
                    return self.checked(response.status)
            except TimeoutError:
                continue
            finally:
                connection.close()
        raise ConnectionError("no reply")


class PutsAllAgain(PutsAgain):
    """All rows of complete checkpoints, under one name."""

    def open(self, context: Context) -> None:
        self.context = context
        for _, state in context.restored:
            self.pending = dict(json.loads(state))
            self.put_all(max(self.pending))

    def notify_complete(self, checkpoint_id: int) -> None:
        self.put_all(checkpoint_id)

    def put_all(self, checkpoint_id: int) -> None:
        complete = [rows for each, rows in self.pending.items() if each <= checkpoint_id]
        self.publish(f"{self.context.subtask}", [row for rows in complete for row in rows])


class PutsFiveTimes(PutsParts):
    """It waits longer each time, 15 seconds in all."""

    def publish(self, name: str, rows: list[Any]) -> None:
        status = self.ask("PUT", name, body=json.dumps(rows))
        for seconds in (1, 2, 4, 8):
            if status == 200:
                break
            vars(time)["sleep"](seconds)
            status = self.ask("PUT", name, body=json.dumps(rows))
        self.checked(status)


class PutsAtMostFiveTimes(PutsFiveTimes):
    def checked(self, status: int) -> None:
        """Nothing: five times suffice, it thinks."""


class Checked(OwnServer):
    claims = Claim.NO_LOSS | Claim.NO_DUPLICATES
    rescales = False
    made: Any = PutsParts

    def program(self, scratch: Scratch) -> Sequence[str]:
        return SERVER

    def sink(self, scratch: Scratch) -> PutsParts:
        return self.made(port_of(scratch))  # type: ignore[no-any-return]

    def committed(self, scratch: Scratch) -> Iterator[list[int]]:
        connection = HTTPConnection("127.0.0.1", port_of(scratch))
        connection.request("GET", "/")
        with connection.getresponse() as response:
            rows = json.loads(response.read())
        connection.close()
        yield from rows


class Unchecked(Checked):
    made = PutsUnchecked


class CheckedForErrorsOfTheServer(Checked):
    made = PutsUnlessTheServerFails


class CheckedFirst(Checked):
    made = PostsParts


class InBulk(Checked):
    made = SendsInBulkChecked


class LastAgain(Checked):
    made = SendsTheLastAgain


class RejectedAgain(Checked):
    made = SendsTheRejectedAgain


class InBulkUnchecked(Checked):
    made = SendsInBulk


class CheckedThenSentAgain(Checked):
    made = PostsAgain


class UncheckedFirst(Checked):
    made = PostsUnlessTold


class ListedByLine(Checked):
    made = PostsUnlessListed


class ListedAsAWhole(Checked):
    made = PostsUnlessListedAsAWhole


class PutAgain(Checked):
    made = PutsAgain


class PutAgainAsAWhole(Checked):
    made = PutsAllAgain


class TriedFiveTimes(Checked):
    made = PutsFiveTimes


class GivesUpAfterFiveTimes(Checked):
    made = PutsAtMostFiveTimes
