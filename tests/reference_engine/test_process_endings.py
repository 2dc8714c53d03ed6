"""Attempts that end by themselves or answer garbage: each kind of ending is reported as such."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from sinkproof.chaos.processes.spawn import ForkServer, Limits
from sinkproof.reference_engine.shells.process.process_host import (
    AttemptEnded,
    AttemptEnding,
    ProcessHost,
    Recipe,
    RemoteSink,
    SinkError,
    WatchedCode,
)
from sinkproof.sink_adapters.protocol import Batch, Context, Fenced, Row, TransactionLost

HELPER = Path(__file__).parents[1].joinpath("support/attempts_under_test.py")
ROWS = tuple(Row(0, offset, "k", "v") for offset in range(6))


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with ForkServer(preload=[str(HELPER)]) as started:
        yield started


def opened(server: ForkServer, behaviour: str) -> tuple[ProcessHost, RemoteSink]:
    recipe = Recipe(maker=f"{HELPER.stem}:make_bad_sink", arguments=(behaviour,))
    hang_seconds = 0.5 if behaviour == "hangs" else 60.0  # eating 300 MB takes a busy machine more than a second
    host = ProcessHost(server, recipe, WatchedCode())
    host.hang_seconds, host.limits = hang_seconds, Limits(data_bytes=300 << 20)
    sink = host.spawn("sink[0]", 0, 1)
    sink.open(Context(clock=lambda: 12.5, random=Random(7)))
    return host, sink


@pytest.mark.parametrize(
    ("behaviour", "ending", "status"),
    [
        ("hangs", AttemptEnding.HUNG, signal.SIGKILL),
        ("exits", AttemptEnding.EXITED, 3 << 8),
        ("stops", AttemptEnding.STOPPED, signal.SIGKILL),
        ("aborts", AttemptEnding.SIGNALLED, signal.SIGABRT),
        ("eats_memory", AttemptEnding.OUT_OF_MEMORY, signal.SIGKILL),
        ("sends_nonsense", AttemptEnding.GARBAGE, signal.SIGKILL),
    ],
)
def test_an_unordered_ending_reports_its_kind(
    server: ForkServer, behaviour: str, ending: AttemptEnding, status: int
) -> None:
    host, sink = opened(server, behaviour)
    with pytest.raises(AttemptEnded) as raised:
        sink.write(Batch(ROWS))
    assert (ending, status) == (raised.value.ending, raised.value.status)
    assert (f"about to {behaviour.rstrip('s')}" in str(raised.value)) == (behaviour in ("hangs", "exits"))
    assert 0 == host.kills
    with pytest.raises(AttemptEnded):
        sink.write(Batch(ROWS))
    host.close()


def test_a_sink_that_closes_every_descriptor_is_not_waited_for(server: ForkServer) -> None:
    host, sink = opened(server, "closes_everything")
    with pytest.raises(AttemptEnded):
        sink.write(Batch(ROWS))
    host.close()


def test_a_sink_that_forks_is_answered_for_once(server: ForkServer) -> None:
    host, sink = opened(server, "forks")
    for _ in range(3):
        sink.write(Batch(ROWS))
    assert 2 == len(sink.snapshot(1).split(b","))
    host.close()


@pytest.mark.parametrize(
    ("behaviour", "kind", "text"),
    [
        ("is_fenced", Fenced, "a newer attempt took over"),
        ("has_lost", TransactionLost, "gone"),
        ("raises", SinkError, "KeyError: 'a key'"),
        ("raises_an_error_without_text", SinkError, "ErrorWithoutText: "),
    ],
)
def test_an_exception_of_the_sink_comes_back_as_its_reaction(
    server: ForkServer, behaviour: str, kind: type[Exception], text: str
) -> None:
    host, sink = opened(server, behaviour)
    with pytest.raises(kind) as raised:
        sink.write(Batch(ROWS))
    assert str(raised.value).startswith(text)
    assert sink.alive
    host.close()


def test_what_is_not_plain_is_no_reply(server: ForkServer) -> None:
    host, sink = opened(server, "no_bytes")
    with pytest.raises(SinkError, match=r"snapshot\(\) returned str, not bytes"):
        sink.snapshot(1)
    assert [3] == sink.notify_complete(3)
    host.close()


def test_time_and_chance_are_those_of_the_engine(server: ForkServer) -> None:
    host, sink = opened(server, "no_bytes")
    host.close()
    host, sink = opened(server, "is_fenced")
    assert repr((12.5, Random(7).random())).encode() == sink.snapshot(1)
    host.close()


def test_a_call_that_the_sink_lacks_does_nothing(server: ForkServer) -> None:
    host, sink = opened(server, "no_bytes")
    sink.notify_aborted(1)
    assert [] == sink.settle(1.0)
    sink.end_of_input()
    sink.close()
    assert sink.alive
    host.close()
