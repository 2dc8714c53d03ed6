"""Contracts that start a server of their own for each run: a program that prints one line once it listens."""

from __future__ import annotations

import subprocess
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer

from sinkproof import Scratch


class OwnServer(ABC):
    @abstractmethod
    def program(self, scratch: Scratch) -> Sequence[str]:
        """Its command line."""

    def setup(self, scratch: Scratch) -> None:
        self.server = subprocess.Popen(self.program(scratch), stdout=subprocess.PIPE, text=True)
        assert self.server.stdout is not None
        (scratch.path / "port").write_text(self.server.stdout.readline())

    def teardown(self, scratch: Scratch) -> None:
        self.server.kill()
        self.server.communicate()


def port_of(scratch: Scratch) -> int:
    """If that is what the program prints."""
    return int((Path(scratch.path) / "port").read_text())


def serve(handler: type[BaseRequestHandler]) -> None:
    """What such a program does, in threads."""
    ThreadingTCPServer.daemon_threads = True
    with ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        print(server.server_address[1], flush=True)
        server.serve_forever()
