"""The entry of a watched driver without Spark."""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from sinkproof.campaign.task import Task
from sinkproof.chaos.processes.child_channel import Inside
from sinkproof.chaos.system_calls.seccomp_filter import put_on
from sinkproof.foreach_batch.watched_query import Orders, serve_with
from sinkproof.subject.loading import load


def serve(inside: Inside, orders: Orders) -> None:
    from tests.support.explored_functions import Frame

    put_on(inside.channel)
    os.chdir(orders.path)
    session: Any = Frame(range(0))
    serve_with(session, load(orders.place), inside, orders=orders)


def die(inside: Inside, orders: Orders) -> None:
    raise RuntimeError("no spark today")


def show(inside: Inside, task: Task) -> None:
    """Every run breaks a claim again."""
    inside.send(pickle.dumps(True))


def show_nothing(inside: Inside, task: Task) -> None:
    inside.send(pickle.dumps(False))
