"""A server of HTTP: what is posted is appended, what is put replaces what has its name. It starts anew for each run of
a campaign, so it imports little.
"""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class PartsHandler(BaseHTTPRequestHandler):
    parts: dict[str, list[list[int]]] = {}  # noqa: RUF012

    def reply(self, status: int, *, text: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def rows(self) -> list[list[int]]:
        length = int(self.headers["Content-Length"])
        text = self.rfile.read(length)
        if len(text) < length:
            raise ConnectionError("the client has hung up")
        return json.loads(text)  # type: ignore[no-any-return]

    def do_PUT(self) -> None:
        self.parts[self.path] = self.rows()
        self.reply(200)

    def do_POST(self) -> None:
        if self.path == "/_bulk":
            self.create_each()
            return
        self.parts[self.path] = self.parts.get(self.path, []) + self.rows()
        self.reply(200)

    def create_each(self) -> None:
        lines = self.rfile.read(int(self.headers["Content-Length"])).splitlines()
        items = [json.loads(line)["create"] for line in lines[::2]]
        for item, row in zip(items, lines[1::2], strict=True):
            self.parts.setdefault(item["_id"], [json.loads(row)])
        text = json.dumps({"errors": False, "items": [{"create": {**item, "status": 201}} for item in items]})
        self.reply(200, text=text.encode())

    def do_HEAD(self) -> None:
        self.reply(200 if self.path in self.parts else 404)

    def do_GET(self) -> None:
        if self.path == "/names":
            self.reply(200, text="".join(f"{name}\n" for name in self.parts).encode())
            return
        self.reply(200, text=json.dumps([row for rows in list(self.parts.values()) for row in rows]).encode())

    def log_message(self, *arguments: object) -> None:
        """Nothing."""


if __name__ == "__main__":
    with ThreadingHTTPServer(("127.0.0.1", 0), PartsHandler) as server:
        print(server.server_address[1], flush=True)
        server.serve_forever()
