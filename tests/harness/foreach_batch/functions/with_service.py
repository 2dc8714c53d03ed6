"""Functions that send rows to a service, which `setup` starts in this process: its port is in the folder."""

import http.client
import json
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

PORT = "port"
SERVERS = []


class Server(ThreadingHTTPServer):
    def handle_error(self, *_):
        """A request that ends early has no answer."""


class Service(BaseHTTPRequestHandler):
    def do_PUT(self):
        self.server.batches[self.path] = self.rows()
        self.answer()

    def do_POST(self):
        self.server.batches.setdefault(self.path, []).extend(self.rows())
        self.answer()

    def rows(self):
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def answer(self):
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def setup(scratch):
    server = Server(("127.0.0.1", 0), Service)
    server.batches = {}
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    SERVERS.append(server)
    (scratch.path / PORT).write_text(str(server.server_port))


def teardown(scratch):
    while SERVERS:
        server = SERVERS.pop()
        server.shutdown()
        server.server_close()


def request(method, df, batch_id):
    connection = http.client.HTTPConnection("127.0.0.1", int(Path(PORT).read_text()))
    rows = json.dumps([(row.split, row.offset) for row in df.collect()])
    try:
        connection.request(method, f"/{batch_id}", rows)
        response = connection.getresponse()
        response.read()
        if response.status != 200:
            raise http.client.HTTPException(response.reason)
    finally:
        connection.close()


def put(df, batch_id):
    request("PUT", df, batch_id)


def post(df, batch_id):
    request("POST", df, batch_id)


def put_unchecked(df, batch_id):
    """Wrong: a service that is unavailable says so by its status."""
    connection = http.client.HTTPConnection("127.0.0.1", int(Path(PORT).read_text()))
    try:
        connection.request("PUT", f"/{batch_id}", json.dumps([(row.split, row.offset) for row in df.collect()]))
        connection.getresponse().read()
    finally:
        connection.close()


def swallow(df, batch_id):
    with suppress(OSError, http.client.HTTPException):
        put(df, batch_id)


def committed(scratch):
    for rows in SERVERS[-1].batches.values():
        yield from rows
