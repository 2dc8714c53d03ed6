"""A right sink on the store, and on the hasty one: only what happens inside the service differs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from sinkproof.canaries.inside_services import INSIDE_SERVICE
from sinkproof.canaries.inside_services.two_file_store import HASTY_STORE, TWO_FILE_STORE, LocalStore, request
from sinkproof.canaries.on_services import ServiceCanary, ServiceTrial
from sinkproof.chaos.services.choose_service import Kind
from sinkproof.sink_adapters.protocol import Batch, TransactionLost
from sinkproof.sink_adapters.strategies.ownership_and_names import Owner, Transaction
from sinkproof.sink_adapters.strategies.two_phase import TwoPhaseCommitSink
from sinkproof.subject.claims import Claim
from sinkproof.subject.services_in_use import NO_SETTINGS, RegisteredService

RUN: Final = "run"  # the file with the number of the run, by which its rows are told apart


class StoreTransactions:
    """Rows are buffered here until they are prepared there. `run`: a prefix of all names."""

    def __init__(self, address: str, run: str) -> None:
        self.address, self.run = address, run
        self.rows: dict[str, list[Any]] = {}

    def begin(self, transaction: Transaction) -> None:
        self.rows[transaction] = []

    def write(self, transaction: str, batch: Batch) -> None:
        self.rows[transaction] += [[self.run, row.split, row.offset] for row in batch]

    def pre_commit(self, transaction: str) -> str:
        request(self.address, "prepare", name=self.run + transaction, rows=self.rows.pop(transaction))
        return str(transaction)

    def commit(self, handle: str) -> None:
        if not request(self.address, "commit", name=self.run + handle):
            raise TransactionLost(f"the store does not know {handle}")

    def abort(self, transaction: str) -> None:
        request(self.address, "abort", name=self.run + transaction)

    def lingering(self, owner: Owner, before_generation: int) -> Sequence[Transaction]:
        names = request(self.address, "pending")
        found = [Transaction.parse(name.removeprefix(self.run)) for name in names if name.startswith(self.run)]
        return [each for each in found if owner.owns(each.subtask) and each.generation < before_generation]


class OnTwoFileStore:
    """The control: a commit is in both logs before it is acknowledged."""

    claims = Claim.EXACTLY_ONCE
    kind: Kind[LocalStore] = TWO_FILE_STORE

    def __init__(self) -> None:
        self.runs = 0

    def setup(self, scratch: Any) -> None:
        RegisteredService.of(self.kind, scratch.services, start=True, settings=NO_SETTINGS)
        self.runs += 1
        (scratch.path / RUN).write_text(f"run{self.runs}.")

    def service(self, scratch: Any) -> RegisteredService:
        return RegisteredService.of(self.kind, scratch.services, start=False, settings=NO_SETTINGS)

    def sink(self, scratch: Any) -> TwoPhaseCommitSink:
        return TwoPhaseCommitSink(StoreTransactions(self.service(scratch).endpoint, (scratch.path / RUN).read_text()))

    def committed(self, scratch: Any) -> Iterator[tuple[int, int]]:
        run = (scratch.path / RUN).read_text()
        for of_run, split, offset in request(self.service(scratch).direct_endpoint, "read"):
            if of_run == run:
                yield split, offset


class OnHastyStore(OnTwoFileStore):
    """R16: the service acknowledges a commit before it is durable in all its files."""

    kind = HASTY_STORE


KILLS: Final = tuple(
    f"service-notify_complete[{number}].syscall(write {log}.log)#1=kill"
    for number in (6, 1)
    for log in ("commit", "data")
)
ON_STORES: Final = ServiceTrial(
    INSIDE_SERVICE,
    (ServiceCanary("answers before its second log", OnHastyStore, "R16", "O1", KILLS),),
    (("both logs, then the answer", OnTwoFileStore),),
)
