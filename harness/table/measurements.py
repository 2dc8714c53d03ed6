"""Measures one pair: how far its guarantee reaches, when its rows can be seen, what it costs."""

from __future__ import annotations

import pickle
import select
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final

from sinkproof.chaos.clock import Deadline, now
from sinkproof.chaos.processes.child import ChildProcess, NoReply
from sinkproof.chaos.processes.spawn import ForkServer
from sinkproof.chaos.services.kafka.kafka_jars import KAFKA
from sinkproof.execution.process_runner import process_runner
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.sink_adapters.files.file_transactions import ROLL_BYTES
from sinkproof.subject.contract import Contract
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch, fresh_folder
from sinkproof.subject.services_in_use import proxies
from sinkproof.table.delivery_after_crashes import Crashed, crashed_everywhere
from sinkproof.table.driven_sink import LOST, ROW_BYTES, Order
from sinkproof.table.expectations import EMBEDDED, EVERY_PAIR, EXPIRES, checkpoints_to_wait, place
from sinkproof.table.late_recovery import recovered_late

ENTRY: Final = "sinkproof.table.driven_sink:drive"
PRELOAD: Final = ("sinkproof.table.driven_sink", "sinkproof.sink_adapters.strategies.adapt_to_sink")
ANSWER_SECONDS: Final = 90.0  # a bulk takes a second; ten times that where each row is a request, on a busy machine
BULK_SECONDS: Final = 0.4
BULK_SECONDS_ON_SERVICES: Final = 2.0  # a JVM gets faster while it works
INTERVAL_SECONDS: Final = 0.1  # between two checkpoints of a stream
STREAM_CHECKPOINTS: Final = 5
SEEN_SECONDS: Final = 10.0  # a row is visible milliseconds after its commit
TIMEOUT_SECONDS: Final = 1.0  # of transactions, of a broker that is asked to be quick
EXPIRED_SECONDS: Final = 20.0  # it looks once a second
LOOK_AGAIN_SECONDS: Final = 0.1
REST_SECONDS: Final = 0.001  # between two looks
NOT_LOST: Final = "nothing expires"
LOST_ALOUD: Final = "lost, and the job fails loudly"
LOST_SILENTLY: Final = "lost"
Told = Callable[[str], None]


class NotMeasured(Exception):
    """Nothing is known about this pair: its driver died, or its target did not do what it should."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """Of one pair. Bytes and requests are of each row, all that was sent counted."""

    grade: str
    crashes: int
    breaks_a_claim: bool
    worst_schedule: str
    visible_after_checkpoints: int
    visible_ms_p50: float
    visible_ms_p95: float
    look_ms: float  # what one look of the reader takes: visibility is not known more exactly
    rows_per_second: float
    memory_bytes_peak: int
    requests_per_row: float | None  # None: nobody counts them on a broker that somebody else runs
    target_bytes_per_row: float | None
    state_bytes_per_row: float
    extra_bytes_per_row: float | None  # to the target and into checkpoints, beyond the row itself
    state_bytes_most: int  # of one snapshot
    timeout: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    grade: str
    visible_after_checkpoints: int
    timeout: str


def expected(name: str) -> Expected:
    return Expected(
        grade=EVERY_PAIR[name].grade,
        visible_after_checkpoints=checkpoints_to_wait(name),
        timeout=LOST_ALOUD if name in EXPIRES else NOT_LOST,
    )


def differences(name: str, measured: Measures) -> list[str]:
    """Where what was measured is not what was expected; [] if nowhere."""
    wanted = expected(name)
    found = [
        f"{what}: expected {getattr(wanted, what)}, measured {getattr(measured, what)}"
        for what in Expected.__slots__
        if getattr(wanted, what) != getattr(measured, what)
    ]
    return found + (["a claim broke"] if measured.breaks_a_claim else [])


def measure(name: str, *, disk: Path, told: Told = lambda what: None) -> Measures:
    """`disk`: a folder on a real disk. Raises NotMeasured and ServiceError."""
    bench = Bench(name, disk, told)
    crashed = bench.crash()
    with ForkServer(
        preload=(*PRELOAD, *bench.libraries), warm=[("sinkproof.subject.loading:load", name)]
    ) as bench.server:
        after = bench.visible_after()
        delays, look_ms = bench.delays()
        bulk = bench.bulk()
        memory = bench.ask("held")
        timeout = bench.timeout()
    of_each = {what: bulk[what] and bulk[what] / bulk["rows"] for what in ("requests", "sent_bytes", "state_bytes")}
    requests, sent, state = of_each.values()
    return Measures(
        grade=crashed.grade.value,
        crashes=crashed.crashes,
        breaks_a_claim=crashed.breaks(bench.contract.claims),
        worst_schedule=crashed.worst,
        visible_after_checkpoints=after,
        visible_ms_p50=round(median(delays), 1),
        visible_ms_p95=round(quantiles(delays, n=20)[-1], 1),
        look_ms=round(look_ms, 1),
        rows_per_second=round(bulk["rows_per_second"]),
        memory_bytes_peak=memory,
        requests_per_row=requests and round(requests, 4),
        target_bytes_per_row=sent and round(sent, 1),
        state_bytes_per_row=round(state, 1),
        extra_bytes_per_row=sent and round(sent + state - ROW_BYTES, 1),
        state_bytes_most=bulk["state_bytes_most"],
        timeout=timeout,
    )


class Bench:
    """One pair, with a target of its own for each thing that is measured."""

    server: ForkServer

    def __init__(self, name: str, disk: Path, told: Told) -> None:
        self.name, self.disk, self.told = name, disk, told
        self.contract: Contract = load(name)
        self.target = place(name).target
        self.simulated = self.target in EMBEDDED
        self.libraries = [] if self.simulated else self.contract.libraries

    def crash(self) -> Crashed:
        """Simulated where that is the same code; else with real processes and SIGKILL."""

        def tell(schedule: str, count: int) -> None:
            self.told(f"crashing it at {count} steps: {schedule}")

        with ExitStack() as stack:
            folder = stack.enter_context(_folder(None))
            shell = "simulated" if self.simulated else "process"
            scratch = Scratch(name=f"table-{self.name}", path=folder, shell=shell)
            make = ScheduleRunner if self.simulated else process_runner
            runner: ScheduleRunner = stack.enter_context(make(self.contract, scratch))
            return crashed_everywhere(runner, told=tell)

    @contextmanager
    def place(self) -> Iterator[Scratch]:
        """A target that is empty and set up, where files are on the disk."""
        with _folder(self.disk if self.target == "files" else None) as folder:
            settings = {"roll_bytes": ROLL_BYTES}
            scratch = Scratch(name=f"table-{self.name}", path=folder, shell="process", settings=settings)
            self.contract.call_if_there("setup", scratch)
            try:
                yield scratch
            finally:
                self.contract.call_if_there("teardown", scratch)

    # -- drivers -----------------------------------------------------------------------------------

    def driver(self, way: str, scratch: Scratch, **options: Any) -> ChildProcess:
        order = Order(way=way, locator=self.name, scratch=scratch, environment=self._way_in(scratch), **options)
        return self.server.spawn(ENTRY, order)

    def _way_in(self, scratch: Scratch) -> Mapping[str, str]:
        """A broker of ours is reached through a proxy that counts messages, and is slower than it is."""
        if self.target != "kafka" or not self.direct:
            return {}
        return {KAFKA.variable: f"external:{scratch.service('kafka').direct_endpoint}"}

    direct = True  # whether drivers go to a broker without the proxy

    def hear(self, child: ChildProcess) -> Any:
        try:
            return pickle.loads(child.receive(Deadline(ANSWER_SECONDS)))
        except NoReply as silence:
            said = child.output.tail().strip().rpartition("\n")[2]
            raise NotMeasured(f"its driver is gone ({silence}): {said or 'it has said nothing'}") from silence

    def go_on(self, child: ChildProcess) -> None:
        child.send(b"", Deadline(ANSWER_SECONDS))

    def ask(self, way: str, **options: Any) -> Any:
        """What a driver that is never met says in the end."""
        self.told(way)
        with self.place() as scratch, _ended(self.driver(way, scratch, **options)) as child:
            return self.hear(child)

    # -- what is measured --------------------------------------------------------------------------

    def visible_after(self) -> int:
        """After how many complete checkpoints a row is seen, looked for after each step."""
        self.told("when rows can be seen")
        with self.place() as scratch, _ended(self.driver("steps", scratch)) as child:
            seen = {}
            for step in ("write", "snapshot", "complete"):
                self.hear(child)
                seen[step] = self._await_row(scratch, seconds=SEEN_SECONDS if step == "complete" else 0.0)
                self.go_on(child)
            self.hear(child)
        if not seen["complete"]:
            raise NotMeasured("its row is not visible when its checkpoint is complete")
        return 0 if seen["snapshot"] else 1

    def _await_row(self, scratch: Scratch, *, seconds: float) -> bool:
        deadline = Deadline(seconds)
        while not (seen := bool(self.contract.committed(scratch))) and not deadline.over:
            pass
        return seen

    def delays(self) -> tuple[list[float], float]:
        """(ms from the write of a row until a reader sees it, for each row; ms of one look)."""
        self.told("how long until they are seen")
        with self.place() as scratch:
            child = self.driver("stream", scratch, seconds=INTERVAL_SECONDS, checkpoints=STREAM_CHECKPOINTS)
            with _ended(child):
                self.hear(child)
                first_seen, looks = dict.fromkeys(self._look(scratch), 0.0), 0
                self.go_on(child)
                began, written = now(), None
                while written is None:
                    looks += 1
                    self._note(scratch, first_seen)
                    written = child.take()
                seconds = now() - began
                stream = pickle.loads(written)
                every = {offset for _, offsets in stream for offset in offsets}
                deadline = Deadline(SEEN_SECONDS)
                while not every <= first_seen.keys() and not deadline.over:
                    self._note(scratch, first_seen)
        if missing := every - first_seen.keys():
            raise NotMeasured(f"{len(missing)} of its rows were never seen")
        delays = [1000 * (first_seen[offset] - at) for at, offsets in stream for offset in offsets]
        return delays, 1000 * seconds / looks

    def _look(self, scratch: Scratch) -> list[int]:
        return [offset for _, offset in self.contract.committed(scratch)]

    def _note(self, scratch: Scratch, first_seen: dict[int, float]) -> None:
        """And a rest, so that the sink is not kept from its core."""
        select.select([], [], [], REST_SECONDS)
        found = self._look(scratch)
        moment = now()
        for offset in found:
            first_seen.setdefault(offset, moment)

    def bulk(self) -> dict[str, Any]:
        """Where messages are counted in a proxy, they are counted in a second run, which is slower for that."""
        fast = self._bulk(seconds=BULK_SECONDS if self.simulated else BULK_SECONDS_ON_SERVICES)
        if self.target != "kafka":
            return fast
        if not proxies():
            return {**fast, "requests": None, "sent_bytes": None}
        self.direct = False
        counted = self._bulk(seconds=0.0)
        self.direct = True
        share = fast["rows"] / counted["rows"]
        return {**fast, "requests": counted["requests"] * share, "sent_bytes": counted["sent_bytes"] * share}

    def _bulk(self, *, seconds: float) -> dict[str, Any]:
        self.told("how fast it is" if self.direct else "what it sends")
        with self.place() as scratch:
            with _ended(self.driver("bulk", scratch, seconds=seconds)) as child:
                self.hear(child)
                before = _through_proxies()
                self.go_on(child)
                done: dict[str, Any] = self.hear(child)
            if self.target == "kafka":
                requests, sent = _through_proxies()
                done.update(requests=requests - before[0], sent_bytes=sent - before[1])
        return done

    def timeout(self) -> str:
        """What becomes of a complete checkpoint whose recovery comes after the target's own limit."""
        if self.simulated:
            with _folder(None) as folder:
                late = recovered_late(self.contract, Scratch(name=f"table-{self.name}", path=folder))
            return _fate(lost=bool(late.rows_lost), aloud=late.job_failed)
        self.told("what a late recovery finds")
        with self.place() as scratch:
            with _ended(self.driver("vote", scratch, impatience_seconds=TIMEOUT_SECONDS)) as child:
                state, expires = self.hear(child)
            if expires:
                self._await_expiry(scratch)
            with _ended(self.driver("recover", scratch, restored=state)) as child:
                said = self.hear(child)
            visible = self._await_row(scratch, seconds=0.0 if said == LOST else SEEN_SECONDS)
        return _fate(lost=not visible, aloud=said == LOST)

    def _await_expiry(self, scratch: Scratch) -> None:
        deadline = Deadline(EXPIRED_SECONDS)
        while self.contract.given.residue(scratch):
            if deadline.over:
                raise NotMeasured(f"what is open is not aborted within {EXPIRED_SECONDS:.0f} s")
            select.select([], [], [], LOOK_AGAIN_SECONDS)  # nobody tells when it is


def _fate(*, lost: bool, aloud: bool) -> str:
    return NOT_LOST if not lost else LOST_ALOUD if aloud else LOST_SILENTLY


@contextmanager
def _folder(home: Path | None) -> Iterator[Path]:
    """A fresh one; in memory if there is no home."""
    folder = fresh_folder(home=home)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _ended(child: ChildProcess) -> Iterator[ChildProcess]:
    try:
        yield child
    finally:
        child.kill()
        child.close()


def _through_proxies() -> tuple[int, int]:
    """(requests, bytes) of all that went through."""
    passed = [proxy.status() for proxy in proxies()]
    return sum(each.requests for each in passed), sum(each.request_bytes for each in passed)
