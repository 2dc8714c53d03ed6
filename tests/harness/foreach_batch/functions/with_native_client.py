"""Functions that send rows to a server by a client in C; `setup` starts the server in this process."""

import ctypes
import fcntl
import json
import os
import socket
import socketserver
from contextlib import suppress
from pathlib import Path
from threading import Lock, Thread

PORT = "port"
SERVERS = []
LIBC = ctypes.CDLL(None, use_errno=True)
NO_SIGNAL = 0x4000
PIECE = 20_000  # bytes
EACH = 15


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True


ENDS_SECONDS = 0.3  # the connection of the batch before has ended, which another thread may not have seen yet


class Handler(socketserver.StreamRequestHandler):
    holds_lock = False

    def handle(self):
        tables = self.server.tables
        for text in self.rfile:
            what, name, rows = json.loads(text)
            if what == "put":
                tables[name] = rows
            elif what == "add":
                tables.setdefault(name, []).extend(rows)
            elif what in ("wait", "try"):
                self.holds_lock = self.server.lock.acquire(timeout=ENDS_SECONDS if what == "try" else -1)
            refused = what == "try" and not self.holds_lock
            with suppress(OSError):
                self.wfile.write(b"%d\n" % (-1 if refused else len(tables.get(name, ()))))

    def finish(self):
        if self.holds_lock:
            self.server.lock.release()
        super().finish()


def setup(scratch):
    server = Server(("127.0.0.1", 0), Handler)
    server.tables, server.lock = {}, Lock()
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    SERVERS.append(server)
    (scratch.path / PORT).write_text(str(server.server_address[1]))
    (scratch.path / "process").write_text(str(os.getpid()))


def teardown(scratch):
    while SERVERS:
        server = SERVERS.pop()
        server.shutdown()
        server.server_close()


def committed(scratch):
    for name, rows in SERVERS[-1].tables.items():
        yield from () if name.startswith("done") else rows


class ClientError(Exception):
    """No OSError, as with many clients."""


def connected():
    return socket.create_connection(("127.0.0.1", int(Path(PORT).read_text())))


def ask(*requests):
    """Each is answered before the next one is sent, as `executemany` does it."""
    with connected() as connection:
        return [request(connection.fileno(), *each) for each in requests]


def request(descriptor, what, name, *rows):
    data = json.dumps([what, name, rows]).encode() + b"\n"
    if LIBC.send(descriptor, data, len(data), NO_SIGNAL) < 0:
        raise ClientError("send")
    buffer = ctypes.create_string_buffer(100)
    if LIBC.recv(descriptor, buffer, 100, 0) <= 0:
        raise ClientError("recv")
    return int(buffer.value)


def pairs(df):
    return [[row.split, row.offset] for row in df.collect()]


def put(df, batch_id):
    """Right: all of a batch, in one request that may come again."""
    ask(("put", f"{batch_id}", *pairs(df)))


def add_unless_there(df, batch_id):
    """Wrong: a batch of which one row is there counts as done."""
    if ask(("count", f"{batch_id}"))[0] == 0:
        ask(*[("add", f"{batch_id}", pair) for pair in pairs(df)])


def add_once(df, batch_id):
    """Wrong: what a dead driver has sent may come after this look."""
    if ask(("count", f"{batch_id}"))[0] == 0:
        ask(("add", f"{batch_id}", *pairs(df)))


def add_locked(df, batch_id):
    """Wrong: the lock of a file ends with the dead driver, and what it has sent comes later."""
    with Path("lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        add_once(df, batch_id)


def add_in_turn(df, batch_id, *, lock="wait"):
    """Right: the server gives the lock away when it has carried out what its holder has sent."""
    with connected() as connection:
        if request(connection.fileno(), lock, "lock") < 0:
            raise ClientError("locked")
        if request(connection.fileno(), "count", f"{batch_id}") == 0:
            request(connection.fileno(), "add", f"{batch_id}", *pairs(df))


def add_or_fail(df, batch_id):
    """Right, and fails where it would have to wait."""
    add_in_turn(df, batch_id, lock="try")


def falsy(df, batch_id):
    """Wrong: the id of the last batch is 0 before the first one, and after it."""
    last = ask(("count", "done"))[0]
    if last and batch_id <= last:
        return
    ask(("add", "rows", *pairs(df)))
    ask(("put", "done", *["a batch"] * batch_id))


def piped(df, batch_id):
    """Wrong: a death between two pieces of a large batch leaves rows and no mark. Other batches are sent at once."""
    if ask(("count", f"done {batch_id}"))[0]:
        return
    requests = [*(["add", "rows", [pair]] for pair in pairs(df)), ["put", f"done {batch_id}", ["yes"]]]
    data = "".join(json.dumps(each) + "\n" for each in requests).encode()
    with connected() as connection:
        for first in range(0, len(data), PIECE):
            piece = data[first : first + PIECE]
            if LIBC.send(connection.fileno(), piece, len(piece), NO_SIGNAL) < 0:
                raise ClientError("send")
        with connection.makefile() as replies:
            if sum(1 for _ in zip(requests, replies, strict=False)) < len(requests):
                raise ClientError("recv")


def add_each_fifteenth(df, batch_id):
    """Wrong: a death after the first request adds those rows again."""
    if batch_id % EACH < EACH - 1:
        put(df, batch_id)
        return
    ask(("add", "sum", *pairs(df)))
    ask(("put", "done", ["a sum"]))


def swallow(df, batch_id):
    """Wrong: no error counts."""
    with suppress(ClientError):
        put(df, batch_id)


def repeat(df, batch_id):
    """Wrong: what had no reply is sent again, as something else."""
    try:
        put(df, batch_id)
    except ClientError:
        put(df, f"{batch_id} again")


def only_where_setup_ran(df, batch_id):
    """Right here, and fails in every other process."""
    if Path("process").read_text() != str(os.getpid()):
        raise RuntimeError("another process")
    put(df, batch_id)
