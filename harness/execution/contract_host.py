"""Lets a simulation act on the subject through its contract: make sinks, break the target, age files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sinkproof.chaos.error_text import described
from sinkproof.chaos.services.service import ServiceError, ServiceUnavailable
from sinkproof.chaos.system_calls.unforced_changes import UnforcedChanges
from sinkproof.chaos.wall_clock import shift_file_times
from sinkproof.reference_engine.shells.reader_command import ReaderFailed
from sinkproof.reference_engine.shells.simulated.in_process_host import InProcessHost
from sinkproof.sink_adapters.protocol import Sink
from sinkproof.subject.contract import Contract, ContractError
from sinkproof.subject.scratch import Scratch
from sinkproof.subject.service_outages import Outages
from sinkproof.workload.job_plans import SECOND_SINK


class ContractTarget:
    """Faults of the target that the contract offers.

    A hook is called on the sink's stack, so an error raised there would look like an answer of the target to the sink.
    The error is kept instead, and raised when the run is over.
    """

    def __init__(self, contract: Contract, scratch: Scratch) -> None:
        self.contract, self.scratch = contract, scratch
        self.expires_after = contract.expires_after
        self.ages_files = True  # not where the wall clock moves, too
        self.unforced: UnforcedChanges | None = None  # of a run in which power is lost without the contract's help
        self.failed: ContractError | ReaderFailed | None = None
        self.outages = Outages(scratch.services)

    def call_hook(self, hook: str) -> None:
        call = self.contract.optional(hook)
        if call is None and self.unforced is not None:
            try:
                self.unforced.lose(hook)
            except OSError as error:  # of ours: the run says nothing of the sink
                said = f"what a loss of power leaves could not be laid out: {described(error)}"
                self.failed = self.failed or ContractError(said)
            return
        assert call is not None, "a fault that needs the contract's help was let through"
        try:
            call(self.scratch)
        except Exception as error:  # the border to the user's method
            said = f"{self.contract.locator}: {hook}(scratch) raised {described(error)}"
            self.failed = self.failed or ContractError(said)

    def age(self, seconds: float) -> None:
        """Ages files; any other target reads the time from `scratch.clock`."""
        if self.ages_files:
            shift_file_times(self.scratch.path, -seconds)

    def break_services(self, how: str) -> None:
        with self._no_verdict_on_the_sink():
            self.outages.begin(how)

    @contextmanager
    def _no_verdict_on_the_sink(self) -> Iterator[None]:
        """A service that cannot be broken, or does not come back, is no finding against the sink."""
        try:
            yield
        except ServiceUnavailable as error:
            self.failed = self.failed or ContractError(str(error))
        except ServiceError as error:
            self.failed = self.failed or ReaderFailed("has nothing to read from any more", evidence=str(error))

    def come_to_rest(self) -> None:
        """Waits for requests in flight after every writer has ended."""
        with self._no_verdict_on_the_sink():
            self.outages.await_end()
        self.scratch.services.await_settled()

    def raise_what_failed(self) -> None:
        failed, self.failed = self.failed, None
        if failed is not None:
            raise failed


class ContractHost(InProcessHost):
    """Makes sinks by the contract, those of a second vertex by its second method."""

    def __init__(self, contract: Contract, scratch: Scratch) -> None:
        super().__init__(lambda: contract.sink(scratch), keeps_dead=contract.copies)
        self.contract, self.scratch = contract, scratch

    def spawn(self, actor: str, subtask: int, generation: int) -> Sink:
        if not actor.startswith(f"{SECOND_SINK}["):
            return super().spawn(actor, subtask, generation)
        self.reap()
        made: Sink = self.contract.second_sink(self.scratch)
        return made
