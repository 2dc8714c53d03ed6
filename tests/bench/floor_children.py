"""Children of the process shell's floors. Fork servers import this module: what they hold makes each fork dearer."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

from sinkproof.chaos.processes.child_channel import Inside
from sinkproof.sink_adapters.protocol import Batch, Context, Row
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

ANSWERS = 13  # a run with a kill has 53 requests to 4 attempts


def answer_once(inside: Inside) -> None:
    """The least that a child can do."""
    inside.receive()
    inside.send(b"")


def answer_often(inside: Inside) -> None:
    for _ in range(ANSWERS):
        answer_once(inside)


def make_calls(inside: Inside, locator: str, folder: Path) -> None:
    """The sink in a process of its own, without faults, points or journals."""
    sink: Any = None
    while (request := inside.receive()) is not None:
        call, arguments = pickle.loads(request)
        if call == "open":
            fields, random_state = arguments
            context = Context(**fields)
            context.random.setstate(random_state)
            sink = load(locator).sink(Scratch(name=locator, path=folder, shell="process"))
            value = sink.open(context)
        elif call == "write":
            value = sink.write(Batch(map(Row._make, arguments[0])))
        else:
            value = getattr(sink, call, lambda *_: None)(*arguments)
        inside.send(pickle.dumps(value))
