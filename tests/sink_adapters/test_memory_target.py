"""The store in memory, in this process and behind a socket, and the registry of pairs."""

from __future__ import annotations

import os
import pickle
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sinkproof.sink_adapters.memory import memory_server
from sinkproof.sink_adapters.memory.memory_server import LENGTH, RemoteStore
from sinkproof.sink_adapters.memory.memory_store import MemoryStore
from sinkproof.sink_adapters.protocol import Batch, CommitOutcome, Context, Fenced, Row
from sinkproof.sink_adapters.registry import PAIRS
from sinkproof.sink_adapters.strategies.ownership_and_names import Owner, Transaction
from sinkproof.subject.claims import Claim, Grade

from .by_hand import rows

TOKEN = ("sink", 1)
OWNER = Owner("sink", 0, 1)


@pytest.fixture(params=["in this process", "behind a socket"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    if request.param == "in this process":
        yield MemoryStore()
        return
    server = memory_server.start(tmp_path)
    remote = RemoteStore(tmp_path)
    yield remote
    remote.close()
    memory_server.stop(server, tmp_path)


def prepared(store: Any, sequence: int, *offsets: int) -> Transaction:
    name = Transaction.of(OWNER, 1, sequence)
    store.begin(TOKEN, name, 0.0)
    store.write(TOKEN, name, rows(*offsets))
    store.prepare(TOKEN, name)
    return name


# -- the store --------------------------------------------------------------------------------------------------------


@pytest.mark.row("S18")
def test_rows_are_visible_when_their_transaction_is_committed_in_the_order_of_checkpoints(store: Any) -> None:
    second, first = prepared(store, 2, 2, 3), prepared(store, 1, 0, 1)
    assert ([], [first, second]) == (store.read(), store.residue())
    assert CommitOutcome.COMMITTED is store.commit(TOKEN, second)
    assert CommitOutcome.COMMITTED is store.commit(TOKEN, first)
    assert CommitOutcome.ALREADY is store.commit(TOKEN, first)
    assert ([(0, 0), (0, 1), (0, 2), (0, 3)], []) == (store.read(), store.residue())


@pytest.mark.row("S21")
def test_the_commit_of_an_aborted_or_unknown_transaction_is_lost(store: Any) -> None:
    name = prepared(store, 1, 0)
    store.abort(TOKEN, name)
    store.abort(TOKEN, name)
    assert CommitOutcome.LOST is store.commit(TOKEN, name)
    with pytest.raises(LookupError):
        store.write(TOKEN, name, rows(1))


@pytest.mark.row("S21")
def test_every_call_of_a_fenced_attempt_is_refused_and_changes_nothing(store: Any) -> None:
    name = prepared(store, 1, 0)
    store.fence(("sink", 2))
    before = store.freeze()
    other = Transaction.of(OWNER, 1, 2)
    for act in (
        lambda: store.fence(TOKEN),
        lambda: store.begin(TOKEN, other, 0.0),
        lambda: store.write(TOKEN, other, rows(1)),
        lambda: store.prepare(TOKEN, other),
        lambda: store.commit(TOKEN, name),
        lambda: store.abort(TOKEN, name),
    ):
        with pytest.raises(Fenced):
            act()
    assert before == store.freeze()
    store.begin(("another", 1), Transaction.of(Owner("another", 0, 1), 1, 1), 0.0)
    assert CommitOutcome.COMMITTED is store.commit(("sink", 2), name)


def test_a_transaction_name_is_never_used_twice(store: Any) -> None:
    name = prepared(store, 1, 0)
    store.commit(TOKEN, name)
    with pytest.raises(ValueError, match="begun before"):
        store.begin(TOKEN, name, 0.0)


@pytest.mark.row("S25")
def test_a_marker_is_never_lowered_and_what_it_covers_is_never_collected(store: Any) -> None:
    for sequence in (1, 2, 3):
        store.stage(Transaction.of(OWNER, 1, sequence), rows(sequence))
    assert CommitOutcome.COMMITTED is store.reveal(TOKEN, 2)
    assert CommitOutcome.ALREADY is store.reveal(TOKEN, 1)
    store.collect(OWNER, 1)
    assert ["sink-0-1-3"] == store.residue()
    store.collect(OWNER, 2)
    assert ([(0, 1), (0, 2)], []) == (store.read(), store.residue())


@pytest.mark.row("S19")
def test_the_table_holds_the_last_row_of_each_key_and_the_changelog_all_of_them(store: Any) -> None:
    for row in rows(0, 1, 2):
        store.upsert([(f"key {row.offset % 2}", row)])
    assert [(0, 1), (0, 2)] == store.read()
    assert [(0, 0), (0, 1), (0, 2)] == store.read_changes()


def test_calls_with_an_effect_are_counted_and_others_are_not(store: Any) -> None:
    store.append(rows(0))
    before = store.effects()
    (
        store.read(),
        store.freeze(),
        store.canonical(""),
        store.residue(),
        store.is_recorded("x"),
        store.lingering(OWNER, 9),
    )
    store.abort(TOKEN, "sink-0-1-9")
    store.collect(OWNER, 9)
    store.fence(TOKEN)
    store.fence(TOKEN)
    assert before + 1 == store.effects()


def test_a_copy_is_restored_exactly_after_any_change(store: Any) -> None:
    name = prepared(store, 1, 0)
    store.append(rows(7))
    store.upsert([("key", rows(8)[0])])
    store.stage(Transaction.of(OWNER, 1, 5), rows(9))
    frozen = store.freeze()
    store.commit(TOKEN, name)
    store.append(rows(6))
    store.record("sink-0-1")
    store.reveal(TOKEN, 5)
    store.fence(("sink", 3))
    store.thaw(frozen)
    assert frozen == store.freeze()
    assert CommitOutcome.COMMITTED is store.commit(TOKEN, name)


def test_the_state_text_distinguishes_only_what_can_still_matter() -> None:
    texts = []
    for generation in (700001, 700002):
        store = MemoryStore()
        name = Transaction.of(OWNER, generation, 1)
        store.begin(("sink", generation), name, 0.0)
        store.write(("sink", generation), name, rows(0))
        store.prepare(("sink", generation), name)
        pending = store.canonical(f"... {name} ..."), store.canonical("nothing")
        assert pending[0] != pending[1]
        store.commit(("sink", generation), name)
        texts.append((store.canonical("nothing"), store.canonical(f"... {name} ...")))
    assert texts[0][0] == texts[1][0]
    assert texts[0][1] != texts[1][1]


# -- behind a socket --------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    server = memory_server.start(tmp_path)
    yield tmp_path
    memory_server.stop(server, tmp_path)


def test_half_a_request_of_a_killed_client_has_no_effect_and_blocks_no_other_client(folder: Path) -> None:
    killed, alive = RemoteStore(folder), RemoteStore(folder)
    body = pickle.dumps(("append", (rows(0),)))
    killed._socket.sendall(LENGTH.pack(len(body)) + body[:-1])
    alive.append(rows(1))
    killed.close()
    alive.append(rows(2))
    assert [(0, 1), (0, 2)] == alive.read()
    alive.close()


def test_an_invalid_request_is_answered_and_the_server_keeps_running(folder: Path) -> None:
    store = RemoteStore(folder)
    with pytest.raises(AttributeError):
        store.no_such_method()
    with pytest.raises(TypeError):
        store.append()
    assert [] == store.read()
    store.close()


STARTS_AND_IS_KILLED = """
import os, sys
from pathlib import Path
from sinkproof.sink_adapters.memory import memory_server

server = memory_server.start(Path(sys.argv[1]))
sys.stdout.write(f"{server.pid}\\n")
sys.stdout.flush()
os.kill(os.getpid(), 9)
"""


def test_the_server_is_killed_with_the_process_that_started_it(tmp_path: Path) -> None:
    parent = subprocess.run(
        [sys.executable, "-c", STARTS_AND_IS_KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True, check=False
    )
    assert -signal.SIGKILL == parent.returncode
    try:
        descriptor = os.pidfd_open(int(parent.stdout))
    except ProcessLookupError:
        return  # it has ended already
    assert select.select([descriptor], [], [], 10)[0]
    os.close(descriptor)


def test_a_folder_with_a_long_name_works(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    server = memory_server.start(folder)
    store = RemoteStore(folder)
    store.append(rows(0))
    assert [(0, 0)] == store.read()
    store.close()
    memory_server.stop(server, folder)
    with pytest.raises(OSError), socket.socket(socket.AF_UNIX) as plain:  # noqa: PT011 - any failure counts
        plain.connect(str(folder / memory_server.SOCKET))


# -- the registry -----------------------------------------------------------------------------------------------------


@dataclass
class SomeScratch:
    """What the harness passes to contracts."""

    path: Path
    shell: str = "simulated"
    name: str = "some"
    settings: dict[str, Any] = field(default_factory=dict)

    def setting(self, name: str, default: Any) -> Any:
        return self.settings.get(name, default)


def test_every_pair_has_known_claims_and_an_expected_grade() -> None:
    for pair in PAIRS.values():
        assert {*pair.claims} <= {*Claim.__members__}
        assert Grade(pair.grade)
        assert pair.sentence
        assert pair.claims == pair.contract().claims
    assert {"files", "memory"} == {name.split("/")[0] for name in PAIRS}
    assert 14 == len(PAIRS)


def run_through(contract: Any, scratch: SomeScratch) -> bytes:
    """Two subtasks, two checkpoints, no fault. Returns a snapshot."""
    sinks = [contract.sink(scratch) for _ in range(2)]
    for subtask, sink in enumerate(sinks):
        sink.open(Context(subtask=subtask, parallelism=2, generation=700001))
    state = b""
    for checkpoint_id in (1, 2):
        for subtask, sink in enumerate(sinks):
            for offset in range(checkpoint_id * 3, checkpoint_id * 3 + 3):
                sink.write(Batch([Row(subtask, offset, f"k{offset}", f"v{offset}")]))
            state = sink.snapshot(checkpoint_id)
        for sink in sinks:
            sink.notify_complete(checkpoint_id)
    for sink in sinks:
        sink.end_of_input()
        sink.close()
    return state


WAYS = {
    "simulated": SomeScratch(Path()),
    "processes": SomeScratch(Path(), shell="process"),
    "a disk in memory": SomeScratch(Path(), settings={"disk": "memory"}),
}


@pytest.mark.row("S26")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", PAIRS)
def test_every_pair_delivers_every_row_and_can_be_copied(name: str, way: str, tmp_path: Path) -> None:
    contract, scratch = PAIRS[name].contract(), SomeScratch(tmp_path, WAYS[way].shell, name, WAYS[way].settings)
    contract.setup(scratch) if hasattr(contract, "setup") else None
    empty = contract.freeze(scratch)
    text = contract.canonical(scratch, "")
    version = contract.version(scratch)
    state = run_through(contract, scratch)
    expected = [(split, offset) for split in (0, 1) for offset in range(3, 9)]
    assert expected == sorted(contract.committed(scratch))
    assert [] == list(contract.residue(scratch) if hasattr(contract, "residue") else [])
    assert expected == sorted(contract.seen(scratch) if hasattr(contract, "seen") else expected)
    assert version != contract.version(scratch)
    assert text != contract.canonical(scratch, repr(state))
    full = contract.freeze(scratch)
    contract.thaw(scratch, empty)
    assert ([], text) == (list(contract.committed(scratch)), contract.canonical(scratch, ""))
    contract.thaw(scratch, full)
    assert expected == sorted(contract.committed(scratch))
    contract.teardown(scratch) if hasattr(contract, "teardown") else None


# -- time limits ------------------------------------------------------------------------------------------------------


@pytest.mark.row("S21")
def test_the_store_aborts_expired_transactions_by_its_own_clock() -> None:
    now = [1000.0]
    store = MemoryStore(clock=lambda: now[0], transaction_timeout=60.0)
    name = prepared(store, 1, 0)  # by the client's clock, this was at 0
    now[0] += 59.0
    store.expire(before=5000.0)
    assert [name] == store.residue()
    now[0] += 2.0
    assert [] == store.residue()
    assert CommitOutcome.LOST is store.commit(TOKEN, name)


@pytest.mark.row("S21")
def test_a_transaction_committed_in_time_stays_committed(tmp_path: Path) -> None:
    now = [0.0]
    store = MemoryStore(clock=lambda: now[0], transaction_timeout=60.0)
    name = prepared(store, 1, 0)
    store.commit(TOKEN, name)
    now[0] += 600.0
    assert CommitOutcome.ALREADY is store.commit(TOKEN, name)
    assert [(0, 0)] == store.read()
