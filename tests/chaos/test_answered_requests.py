"""A request of HTTP that any program sends is answered by 503 in the place of its service, which gets nothing of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sinkproof.chaos.processes.spawn import ForkServer
from sinkproof.chaos.system_calls.acts import Act

from ..support.served_puts import served_puts
from ..support.watched_programs import perl, python, run
from .test_system_calls import needs_watch

BLOCKING = """
import http.client
for number in range(3):
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=600)
    connection.request("PUT", f"/{number}", b"rows")
    print(connection.getresponse().status, flush=True)
"""
BY_EPOLL = """
import asyncio
async def put(number):
    reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
    writer.write(b"PUT /%d HTTP/1.1\\r\\nContent-Length: 4\\r\\nConnection: close\\r\\n\\r\\n" % number)
    reading = asyncio.ensure_future(reader.read())
    await asyncio.sleep(0)
    writer.write(b"rows")
    print((await reading).split()[1].decode(), flush=True)
    writer.close()
async def main():
    for number in range(3):
        await put(number)
asyncio.run(main())
"""
IN_PERL = """
use IO::Socket::INET;
for my $number (0 .. 2) {
    my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => PORT) or die $!;
    syswrite $socket, "PUT /$number HTTP/1.1\\r\\nContent-Length: 4\\r\\nConnection: close\\r\\n\\r\\nrows";
    my $status = <$socket>;
    print((split ' ', $status)[1], "\\n");
}
"""


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with ForkServer() as started:
        yield started


def program(name: str, port: int) -> list[str]:
    if name == "perl":
        return perl(f"chdir $ENV{{FOLDER}}; open STDOUT, '>', 'seen';{IN_PERL.replace('PORT', str(port))}")
    text = {"blocking": BLOCKING, "epoll": BY_EPOLL}[name].replace("PORT", str(port))
    return python(f"import sys\nsys.stdout = open('seen', 'w')\n{text}")


@needs_watch
@pytest.mark.parametrize(
    ("name", "call", "time"),  # of the second request; in Python each is sent in two parts
    [("blocking", "sendto", 3), ("epoll", "sendto", 3), ("perl", "write", 2)],
)
def test_a_service_gets_nothing_of_a_request_that_is_refused(
    name: str, call: str, time: int, *, server: ForkServer, tmp_path: Path
) -> None:
    with served_puts() as (port, put):
        armed = f"syscall({call} socket)", time, Act.REFUSE
        status, points, struck, _ = run(server, tmp_path, program(name, port), armed)
    assert (0, [Act.REFUSE]) == (status, struck), points
    assert ["200", "503", "200"] == (tmp_path / "seen").read_text().split()
    assert ["/0", "/2"] == [path for path, _ in put]
