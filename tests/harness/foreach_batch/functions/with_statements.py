"""Functions that send each row by a statement of its own, to a server like Redis that `setup` starts."""

import sys
from contextlib import closing, suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "support"))

from pipelined_commands import Client, MarkedLast, RefusedError, inserted

SERVED = MarkedLast()
PORT = "port"
setup, teardown, committed = SERVED.setup, SERVED.teardown, SERVED.committed


def insert(df, batch_id):
    """Right: what is refused ends the query, and rows may be sent again."""
    with closing(Client(int(Path(PORT).read_text()))) as client:
        for row in df.collect():
            client.ask(inserted(row))


def pass_over(df, batch_id):
    """Wrong: rows that are refused are left out."""
    with closing(Client(int(Path(PORT).read_text()))) as client:
        for row in df.collect():
            with suppress(RefusedError):
                client.ask(inserted(row))
