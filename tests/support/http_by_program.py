"""A sink that sends each checkpoint to http_server_of_parts.py by a program in Perl. Wrong: PutByProgram, which never
looks at the status that it prints.
"""

from __future__ import annotations

import json
import subprocess
from typing import Any

from http_client import Checked
from parts_of_checkpoints import PartsOfCheckpoints

PUT = r"""
use IO::Socket::INET;
my ($port, $name, $rows) = @ARGV;
my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port) or die $!;
my $head = "PUT /$name HTTP/1.1\r\nContent-Length: " . length($rows) . "\r\nConnection: close\r\n\r\n";
syswrite $socket, $head . $rows;
print((split ' ', scalar <$socket>)[1]);
"""


class PutsByProgram(PartsOfCheckpoints):
    def __init__(self, port: int) -> None:
        super().__init__()
        self.port = port

    def publish(self, name: str, rows: list[Any]) -> None:
        words = ["perl", "-e", PUT, str(self.port), name, json.dumps(rows)]
        self.checked(subprocess.run(words, check=True, capture_output=True, text=True).stdout)

    def checked(self, status: str) -> None:
        """Nothing."""


class PutsByProgramChecked(PutsByProgram):
    def checked(self, status: str) -> None:
        if status != "200":
            raise ConnectionError(f"the server has answered by {status}")


class PutByProgram(Checked):
    made = PutsByProgram


class PutByProgramChecked(Checked):
    made = PutsByProgramChecked
