"""Measures one pair: how far its guarantee reaches, when its rows can be seen, what it costs."""

from __future__ import annotations

import pickle
import select
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final

from sinkproof.chaos.clock import Deadline, now
from sinkproof.chaos.processes.child import ChildProcess, NoReply
from sinkproof.chaos.processes.spawn import ForkServer
from sinkproof.execution.process_runner import process_runner
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.sink_adapters.files.file_transactions import ROLL_BYTES
from sinkproof.subject.contract import Contract
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch, scratch_folder
from sinkproof.subject.services_in_use import ServicesInUse
from sinkproof.table.delivery_after_crashes import Crashed, crashed_everywhere
from sinkproof.table.driven_sink import LOST, ROW_BYTES, DriverTask
from sinkproof.table.expected_and_empty_cells import EMBEDDED, EVERY_PAIR, EXPIRES, cell_of, checkpoints_to_wait
from sinkproof.table.late_recovery import recovered_late

ENTRY: Final = "sinkproof.table.driven_sink:drive"
PRELOAD: Final = ("sinkproof.table.driven_sink", "sinkproof.sink_adapters.strategies.adapt_to_sink")
ANSWER_SECONDS: Final = 90.0  # a bulk takes a second; ten times that where each row is a request, on a busy machine
BULK_SECONDS: Final = 0.4
BULK_SECONDS_ON_SERVICES: Final = 2.0  # a JVM gets faster while it runs
INTERVAL_SECONDS: Final = 0.1  # between two checkpoints of a stream
STREAM_CHECKPOINTS: Final = 5
SEEN_SECONDS: Final = 10.0  # a row is visible milliseconds after its commit
TIMEOUT_SECONDS: Final = 1.0  # of transactions, where the broker lets a client set it
EXPIRED_SECONDS: Final = 20.0  # a broker checks once a second
READ_AGAIN_SECONDS: Final = 0.1
REST_SECONDS: Final = 0.001  # between two readings
NOT_LOST: Final = "nothing expires"
LOST_ALOUD: Final = "lost, and the job fails loudly"
LOST_SILENTLY: Final = "lost"


class NotMeasured(Exception):
    """The pair could not be measured: its driver died, or its target did not answer as it should."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairMeasures:
    """Of one pair. Bytes and requests per row count everything that was sent."""

    grade: str
    crashes: int
    breaks_a_claim: bool
    worst_schedule: str
    visible_after_checkpoints: int
    visible_ms_p50: float
    visible_ms_p95: float
    look_ms: float  # of one reading: the precision of the delays
    rows_per_second: float
    memory_bytes_peak: int
    requests_per_row: float | None  # None: not counted on an external broker
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


def differences(name: str, measured: PairMeasures) -> list[str]:
    """What was measured other than expected; [] if nothing was."""
    wanted = expected(name)
    found = [
        f"{what}: expected {getattr(wanted, what)}, measured {getattr(measured, what)}"
        for what in Expected.__slots__
        if getattr(wanted, what) != getattr(measured, what)
    ]
    return found + (["a claim broke"] if measured.breaks_a_claim else [])


def measure(name: str, *, disk: Path, services: ServicesInUse) -> PairMeasures:
    """`disk`: a folder on a real disk. `services.report` is called with each step. Raises NotMeasured, ServiceError."""
    bench = Bench(name, disk, services)
    crashed = bench.crash()
    with ForkServer(
        preload=(*PRELOAD, *bench.libraries), warm=[("sinkproof.subject.loading:load", name)]
    ) as bench.server:
        after = bench.visible_after()
        delays, look_ms = bench.delays()
        bulk = bench.bulk()
        memory = bench.memory()
        timeout = bench.timeout()
    of_each = {what: bulk[what] and bulk[what] / bulk["rows"] for what in ("requests", "sent_bytes", "state_bytes")}
    requests, sent, state = of_each.values()
    return PairMeasures(
        grade=crashed.grade.value,
        crashes=crashed.crashes,
        breaks_a_claim=bool(crashed.broken(bench.contract.claims)),
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
    """Measures one pair, with an empty target for each measurement."""

    server: ForkServer

    def __init__(self, name: str, disk: Path, services: ServicesInUse) -> None:
        self.name, self.disk, self.services = name, disk, services
        self.contract: Contract = load(name)
        self.target = cell_of(name).target
        self.simulated = self.target in EMBEDDED
        self.libraries = [] if self.simulated else self.contract.libraries

    def crash(self) -> Crashed:
        """In the simulated shell if the target is embedded; else with real processes and SIGKILL."""

        def report(schedule: str, count: int) -> None:
            self.services.report(f"crashing it at {count} steps: {schedule}")

        with ExitStack() as stack:
            folder = stack.enter_context(scratch_folder())
            shell = "simulated" if self.simulated else "process"
            scratch = Scratch(name=f"table-{self.name}", path=folder, shell=shell, services=self.services)
            make = ScheduleRunner if self.simulated else process_runner
            runner: ScheduleRunner = stack.enter_context(make(self.contract, scratch))
            return crashed_everywhere(runner, report=report)

    @contextmanager
    def fresh_target(self) -> Iterator[Scratch]:
        """An empty target after `setup`; its files are on the disk."""
        with scratch_folder(home=self.disk if self.target == "files" else None) as folder:
            settings = {"roll_bytes": ROLL_BYTES}
            scratch = Scratch(
                name=f"table-{self.name}", path=folder, shell="process", settings=settings, services=self.services
            )
            self.contract.call_if_there("setup", scratch)
            try:
                yield scratch
            finally:
                self.contract.call_if_there("teardown", scratch)

    # -- drivers -----------------------------------------------------------------------------------

    def driver(self, way: str, scratch: Scratch, *, proxied: bool = False, **options: Any) -> ChildProcess:
        """`proxied`: an own broker is behind a proxy that counts messages, and slows it down."""
        if self.target == "kafka" and not proxied:
            broker = f"external:{scratch.service('kafka').direct_endpoint}"
            scratch = replace(scratch, services=ServicesInUse(options=replace(self.services.options, kafka=broker)))
        return self.server.spawn(ENTRY, DriverTask(way=way, locator=self.name, scratch=scratch, **options))

    def answer(self, child: ChildProcess) -> Any:
        try:
            return pickle.loads(child.receive(Deadline(ANSWER_SECONDS)))
        except NoReply as no_reply:
            output = child.output.tail().strip().rpartition("\n")[2]
            raise NotMeasured(f"its driver is gone ({no_reply}): {output or 'it printed nothing'}") from no_reply

    def go_on(self, child: ChildProcess) -> None:
        child.send(b"", Deadline(ANSWER_SECONDS))

    # -- what is measured --------------------------------------------------------------------------

    def visible_after(self) -> int:
        """After how many complete checkpoints a row is visible; the target is read after each step."""
        self.services.report("when rows become visible")
        with self.fresh_target() as scratch, _ended(self.driver("steps", scratch)) as child:
            seen = {}
            for step in ("write", "snapshot", "complete"):
                self.answer(child)
                seen[step] = self._await_row(scratch, seconds=SEEN_SECONDS if step == "complete" else 0.0)
                self.go_on(child)
            self.answer(child)
        if not seen["complete"]:
            raise NotMeasured("its row is not visible when its checkpoint is complete")
        return 0 if seen["snapshot"] else 1

    def _await_row(self, scratch: Scratch, *, seconds: float) -> bool:
        deadline = Deadline(seconds)
        while not (seen := bool(self.contract.committed(scratch))) and not deadline.over:
            pass
        return seen

    def memory(self) -> int:
        """Peak of the additional memory, in bytes, of one large checkpoint."""
        self.services.report("held")
        with self.fresh_target() as scratch, _ended(self.driver("held", scratch)) as child:
            return int(self.answer(child))

    def delays(self) -> tuple[list[float], float]:
        """(For each row, ms from its write until a reader sees it; ms of one reading)."""
        self.services.report("how long until they are visible")
        with self.fresh_target() as scratch:
            child = self.driver("stream", scratch, seconds=INTERVAL_SECONDS, checkpoints=STREAM_CHECKPOINTS)
            with _ended(child):
                self.answer(child)
                first_seen, readings = dict.fromkeys(self._read(scratch), 0.0), 0
                self.go_on(child)
                began, written = now(), None
                while written is None:
                    readings += 1
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
        return delays, 1000 * seconds / readings

    def _read(self, scratch: Scratch) -> list[int]:
        return [offset for _, offset in self.contract.committed(scratch)]

    def _note(self, scratch: Scratch, first_seen: dict[int, float]) -> None:
        """Reads after a pause, so that the sink is not kept from its core."""
        select.select([], [], [], REST_SECONDS)
        found = self._read(scratch)
        moment = now()
        for offset in found:
            first_seen.setdefault(offset, moment)

    def bulk(self) -> dict[str, Any]:
        """A proxy counts messages in a second run, because it slows the sink down."""
        fast = self._bulk(seconds=BULK_SECONDS if self.simulated else BULK_SECONDS_ON_SERVICES)
        if self.target != "kafka":
            return fast
        if not self.services.proxies():
            return {**fast, "requests": None, "sent_bytes": None}
        counted = self._bulk(seconds=0.0, proxied=True)
        share = fast["rows"] / counted["rows"]
        return {**fast, "requests": counted["requests"] * share, "sent_bytes": counted["sent_bytes"] * share}

    def _bulk(self, *, seconds: float, proxied: bool = False) -> dict[str, Any]:
        self.services.report("what it sends" if proxied else "how fast it is")
        with self.fresh_target() as scratch:
            with _ended(self.driver("bulk", scratch, proxied=proxied, seconds=seconds)) as child:
                self.answer(child)
                before = self._through_proxies()
                self.go_on(child)
                done: dict[str, Any] = self.answer(child)
            if self.target == "kafka":
                requests, sent = self._through_proxies()
                done.update(requests=requests - before[0], sent_bytes=sent - before[1])
        return done

    def timeout(self) -> str:
        """What happens to a complete checkpoint if recovery begins after the target's own limit."""
        if self.simulated:
            with scratch_folder() as folder:
                late = recovered_late(self.contract, Scratch(name=f"table-{self.name}", path=folder))
            return _timeout_in_words(lost=bool(late.rows_lost), aloud=late.job_failed)
        self.services.report("what a late recovery finds")
        with self.fresh_target() as scratch:
            with _ended(self.driver("vote", scratch, impatience_seconds=TIMEOUT_SECONDS)) as child:
                state, expires = self.answer(child)
            if expires:
                self._await_expiry(scratch)
            with _ended(self.driver("recover", scratch, restored=state)) as child:
                outcome = self.answer(child)
            visible = self._await_row(scratch, seconds=0.0 if outcome == LOST else SEEN_SECONDS)
        return _timeout_in_words(lost=not visible, aloud=outcome == LOST)

    def _await_expiry(self, scratch: Scratch) -> None:
        deadline = Deadline(EXPIRED_SECONDS)
        while self.contract.given.residue(scratch):
            if deadline.over:
                raise NotMeasured(f"an open transaction is not aborted within {EXPIRED_SECONDS:.0f} s")
            select.select([], [], [], READ_AGAIN_SECONDS)  # a broker does not notify of it

    def _through_proxies(self) -> tuple[int, int]:
        """(requests, bytes) that went through the proxies."""
        passed = [proxy.status() for proxy in self.services.proxies()]
        return sum(each.requests for each in passed), sum(each.request_bytes for each in passed)


def _timeout_in_words(*, lost: bool, aloud: bool) -> str:
    return NOT_LOST if not lost else LOST_ALOUD if aloud else LOST_SILENTLY


@contextmanager
def _ended(child: ChildProcess) -> Iterator[ChildProcess]:
    try:
        yield child
    finally:
        child.kill()
        child.close()
