"""A table server that fences the older of two sessions, and clients that open a new one for a broken connection. Rows
are staged with the vote. Wrong: NewSession, which does not say again for which writer it speaks, and LooksFirst, which
opens a new one before it sends anything on a connection that was closed. Right: GreetsAgain, LooksFirstAndGreets.
"""

from __future__ import annotations

import json
import select
import socket
import socketserver
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from own_server import OwnServer, port_of, serve

from sinkproof import Batch, Claim, Context, Fenced, Scratch


class Tables(socketserver.StreamRequestHandler):
    newest: dict[str, int] = {}  # noqa: RUF012
    staged: dict[tuple[str, int], Any] = {}  # noqa: RUF012
    rows: list[Any] = []  # noqa: RUF012
    one_at_a_time = threading.Lock()

    def handle(self) -> None:
        self.greeted: dict[str, int] = {}
        try:
            for line in self.rfile:
                with self.one_at_a_time:
                    answer = getattr(self, "do_" + json.loads(line)[0])(*json.loads(line)[1:])
                self.wfile.write(json.dumps(answer).encode() + b"\n")
        except ConnectionError:
            return

    def do_hello(self, writer: str, generation: int) -> bool:
        self.greeted[writer] = generation
        self.newest[writer] = max(generation, self.newest.get(writer, 0))
        return self.is_current(writer)

    def is_current(self, writer: str) -> bool:
        return writer not in self.greeted or self.greeted[writer] >= self.newest[writer]

    def do_stage(self, writer: str, checkpoint: int, rows: Any) -> bool:
        if self.is_current(writer):
            self.staged[writer, checkpoint] = rows
        return self.is_current(writer)

    def do_commit(self, writer: str, checkpoint: int) -> bool:
        if self.is_current(writer):
            for each in [each for each in self.staged if each[0] == writer and each[1] <= checkpoint]:
                self.rows.extend(self.staged.pop(each))
        return self.is_current(writer)

    def do_discard(self, writer: str, checkpoint: int) -> bool:
        if self.is_current(writer):
            for each in [each for each in self.staged if each[0] == writer and each[1] > checkpoint]:
                del self.staged[each]
        return self.is_current(writer)

    def do_read(self) -> list[Any]:
        return self.rows


class Client:
    def __init__(self, port: int, greets_again: bool) -> None:
        self.port, self.greets_again, self.greetings = port, greets_again, dict[str, int]()

    def connect(self) -> None:
        self.connection = socket.create_connection(("127.0.0.1", self.port))
        self.answers = self.connection.makefile("rb")

    def ask(self, *request: Any) -> Any:
        try:
            return self.exchange(request)
        except ConnectionError:
            self.connect()
            if self.greets_again:
                for greeting in self.greetings.items():
                    self.exchange(("hello", *greeting))
            return self.exchange(request)

    def exchange(self, request: Any) -> Any:
        self.connection.sendall(json.dumps(request).encode() + b"\n")
        return json.loads(self.answers.readline())

    def change(self, *request: Any) -> None:
        if not self.ask(*request):
            raise Fenced("a newer session speaks for this writer")


class LookingClient(Client):
    """What was sent in vain is not sent again."""

    def ask(self, *request: Any) -> Any:
        if select.select([self.connection], [], [], 0)[0]:  # nothing was asked: it is the end
            self.connect()
            for greeting in self.greetings.items() if self.greets_again else ():
                self.exchange(("hello", *greeting))
        return self.exchange(request)


class Sink:
    def __init__(self, client: Client) -> None:
        self.client, self.rows = client, list[Any]()

    def open(self, context: Context) -> None:
        self.writer = str(context.subtask)
        self.client.connect()
        for writer in {self.writer, *map(str, context.subtasks_restored)}:
            self.client.greetings[writer] = context.generation
            self.client.change("hello", writer, context.generation)
            self.client.change("commit", writer, context.checkpoint_id_covered)
            self.client.change("discard", writer, context.checkpoint_id_covered)

    def write(self, batch: Batch) -> None:
        self.rows += [[row.split, row.offset] for row in batch]

    def snapshot(self, checkpoint_id: int) -> bytes:
        self.client.change("stage", self.writer, checkpoint_id, self.rows)
        self.rows = []
        return b""

    def notify_complete(self, checkpoint_id: int) -> None:
        self.client.change("commit", self.writer, checkpoint_id)


class NewSession(OwnServer):
    claims = Claim.NO_LOSS | Claim.NO_DUPLICATES
    rescales = False
    greets_again = False

    def program(self, scratch: Scratch) -> Sequence[str]:
        return [sys.executable, __file__]

    def client(self, scratch: Scratch) -> Client:
        return Client(port_of(scratch), self.greets_again)

    def sink(self, scratch: Scratch) -> Sink:
        return Sink(self.client(scratch))

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        client = self.client(scratch)
        client.connect()
        with client.connection, client.answers:
            return iter(client.ask("read"))


class GreetsAgain(NewSession):
    greets_again = True


class LooksFirst(NewSession):
    def client(self, scratch: Scratch) -> Client:
        return LookingClient(port_of(scratch), self.greets_again)


class LooksFirstAndGreets(LooksFirst):
    greets_again = True


if __name__ == "__main__":
    serve(Tables)
