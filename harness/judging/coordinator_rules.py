"""Checks the log of a coordinator, its events and their effects, against the rules that a coordinator must keep.

A certificate says what a sink does under a coordinator that keeps its rules, so runs are checked for that. The rules
are written from what the log shows, and share no line with the coordinator. A broken rule is a failure of the engine,
whatever the sink did: all claims are UNKNOWN then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from sinkproof.reference_engine.checkpointing.checkpoint_configuration import CheckpointConfiguration, Cleanup
from sinkproof.reference_engine.checkpointing.coordinator import CoordinatorTerm

FAILED: Final = ("declined", "expired", "not_durable")
OVER: Final = "a coordinator that has restarted, given up or finished does nothing more"
RETAINED: Final = 0  # discarding this id discards all retained checkpoints


def broken_rule(terms: Sequence[CoordinatorTerm], configuration: CheckpointConfiguration) -> str:
    """The rule that is broken first, and where; empty if every coordinator has kept its rules."""
    return checked(terms, configuration)[0]


def checked(terms: Sequence[CoordinatorTerm], configuration: CheckpointConfiguration) -> tuple[str, int]:
    """The broken rule, and how many checkpoints were pending at once, at most."""
    states = [TermState(term, configuration) for term in terms]
    broken = next((broken for state in states for broken in state.broken_rules()), "")
    return broken, max((state.pending_most for state in states), default=0)


class TermState:
    """Follows one coordinator's term. `now`, `kind`, `a`, `b` and `effects` are of the present step (`a` and `b`: the
    two arguments of its event); all other attributes are the state before it.
    """

    def __init__(self, term: CoordinatorTerm, configuration: CheckpointConfiguration) -> None:
        self.term, self.configuration = term, configuration
        self.subtasks = {subtask.id for subtask in term.plan.subtasks}
        self.sources = {subtask.id for subtask in term.plan.subtasks if subtask.source is not None}
        self.sinks = {subtask.id for subtask in term.plan.subtasks if subtask.sink}
        restored = term.record
        self.id_last = max(restored.checkpoint_id if restored else 0, term.checkpoint_id_last)
        self.final = restored.checkpoint_id if restored and restored.final else 0
        self.pending: dict[int, set[str]] = {}  # checkpoint -> subtasks that have acknowledged it
        self.pending_most = 0
        self.ended, self.at_cut = set[int](), set[int]()  # sources; those that wait for the next checkpoint to begin
        self.closed = set[int]()  # sinks
        self.doubts: dict[int, dict[int, float]] = {}  # sink -> checkpoint -> in doubt since
        self.failures, self.last_end = 0, float("-inf")  # in a row; of any checkpoint
        self.is_due, self.is_over = False, False

    def broken_rules(self) -> Iterator[str]:
        for now, event, effects in self.term.steps:
            self.now, (self.kind, self.a, self.b), self.effects = now, event, effects
            self._note_sources()
            self._note_facts()
            yield from (self._sentence(rule) for rule, is_kept in self._rules() if not is_kept(self))
            self._advance()

    def _rules(self) -> Iterable[tuple[str, Callable[[TermState], bool]]]:
        return [(OVER, lambda state: not state.effects)] if self.is_over else RULES.items()

    def _sentence(self, rule: str) -> str:
        return f"the coordinator, on {self.kind!r} at {self.now:g} ms, has broken a rule of its own: {rule}"

    # -- effects of the step -----------------------------------------------------------------------

    def arguments_of(self, kind: str) -> list[Any]:
        return [effect[1] for effect in self.effects if effect[0] == kind]

    def sent(self, word: str) -> dict[int, Any]:
        """Subtask -> arguments of the message."""
        return {effect[1]: list(effect[3:]) for effect in self.effects if effect[0] == "send" and effect[2] == word}

    def timers(self, kind: str) -> list[float]:
        return [effect[1] for effect in self.effects if effect[0] == "timer" and effect[2] == kind]

    # -- what follows from the event ---------------------------------------------------------------

    def _note_sources(self) -> None:
        if self.kind == "ended_source":
            self.ended.add(self.a)
        elif self.kind == "cut":
            self.at_cut.add(self.a)

    def _advance(self) -> None:
        self.is_due = not self.is_last_begun and not self.has_room if self.is_wanted else self.is_due
        if self.has_ended:
            self.failures, self.last_end = self.failures + 1 if self.has_failed else 0, self.now
            self.final = 0 if self.has_failed and self.a == self.final else self.final
            self.pending = {one: votes for one, votes in self.pending.items() if one not in self.over_now}
        if self.kind == "acknowledged" and self.a in self.pending:
            self.pending[self.a].add(self.b[0])
        if self.kind == "unsettled_sink":
            was = self.doubts.get(self.a, {})
            self.doubts[self.a] = {one: was.get(one, self.now) for one in self.b}
        if self.kind == "closed_sink":
            self.closed.add(self.a)
            self.doubts.pop(self.a, None)
        for checkpoint_id in self.begun:
            self.pending[checkpoint_id], self.id_last = set(), checkpoint_id
            self.at_cut.clear()
            self.final = checkpoint_id if self.ended >= self.sources else self.final
        self.pending_most = max(self.pending_most, len(self.pending))
        self.is_over = (
            self.is_over
            or bool(self.arguments_of("restart") or self.arguments_of("give_up"))
            or ("finish",) in self.effects
        )

    def is_decided(self, checkpoint_id: int) -> bool:
        """All subtasks have voted for it."""
        return len(self.pending[checkpoint_id]) == len(self.subtasks)

    def _note_facts(self) -> None:
        """What follows from the event and the state before it; each rule asks for some of it."""
        kind, a, pending = self.kind, self.a, self.pending
        self.begun = list(dict.fromkeys(checkpoint_id for checkpoint_id, _ in self.sent("trigger").values()))
        # A checkpoint has failed: a vote was a no or is missing, or the decision could not be written.
        self.has_failed = kind in FAILED and a in pending and self.is_decided(a) is (kind == "not_durable")
        self.has_completed = kind == "durable" and a in pending
        self.has_ended = self.has_failed or self.has_completed
        ended = {one for one in pending if one <= a} if self.has_completed else set()
        self.over_now: set[int] = {a} if self.has_failed else ended  # checkpoints that are not pending any more
        self.must_fail = self._must_fail()
        self.is_wanted = self._is_wanted()
        self.is_last_begun = self.final != 0 and not (self.has_failed and a == self.final)
        self.has_room = len(pending.keys() - self.over_now) < self.configuration.concurrent
        last_end = self.now if self.has_ended else self.last_end
        self.pause = last_end + self.configuration.min_pause_between_checkpoints - self.now  # ms until it may begin
        later = [each for each in self.configuration.checkpoint_ids_after_gaps if each > self.id_last]
        self.id_next = min(later, default=self.id_last + 1)
        self.is_free = self.is_wanted and not self.is_last_begun and self.has_room

    def _must_fail(self) -> bool:
        """Whether the attempts must fail."""
        if self.kind == "closing":
            return not self.closed.union(one for one, doubts in self.doubts.items() if doubts) >= self.sinks
        if self.kind == "settle_deadline":
            since = self.doubts.get(self.a, {}).values()
            return any(self.now - each >= self.configuration.settle_deadline for each in since)
        tolerated = self.failures < self.configuration.tolerable_checkpoint_failure_number
        return self.kind == "failed" or (self.has_failed and not tolerated)

    def _is_wanted(self) -> bool:
        """Whether the next checkpoint is due."""
        if self.kind in ("cut", "ended_source"):
            return self.ended | self.at_cut >= self.sources
        if self.has_ended:
            return not self.must_fail and (self.is_due or (self.has_failed and self.a == self.final))
        return self.kind in ("tick", "retrigger")


# -- the rules -------------------------------------------------------------------------------------


def begins_when_it_may(state: TermState) -> bool:
    begins, waits = state.is_free and state.pause <= 0, state.is_free and state.pause > 0
    return state.begun == [state.id_next] * begins and state.timers("retrigger") == [state.pause] * waits


def begins_at_all_sources(state: TermState) -> bool:
    overtakes = state.configuration.unaligned and not state.ended >= state.sources
    messages = {source: [one, state.now if overtakes else None] for one in state.begun for source in state.sources}
    timeouts = [state.configuration.checkpoint_timeout] * len(state.begun)
    return state.sent("trigger") == messages and state.timers("expired") == timeouts


def ticks(state: TermState) -> bool:
    begins = state.kind == "start" and state.configuration.interval is not None and not state.final
    return state.timers("tick") == [state.configuration.interval] * (begins or state.kind == "tick")


def decides_when_all_have_voted(state: TermState) -> bool:
    is_vote = state.kind == "acknowledged" and state.a in state.pending and not state.is_decided(state.a)
    is_last = is_vote and len(state.pending[state.a] | {state.b[0]}) == len(state.subtasks)
    decided = [(record.checkpoint_id, record.final) for record in state.arguments_of("persist")]
    return decided == [(state.a, state.a == state.final)] * is_last


def notifies_of_aborts_first(state: TermState) -> bool:
    aborted = sorted(state.over_now - ({state.a} if state.has_completed else set()))
    words = [effect[2] for effect in state.effects if effect[0] == "send" and effect[2] in ("aborted", "complete")]
    if words != sorted(words) or words.count("aborted") != len(aborted) * len(state.subtasks):
        return False
    messages = {sink: [state.a, state.a == state.final] for sink in state.sinks if state.has_completed}
    return state.kind in ("opened", "cancel") or (
        state.arguments_of("discard") == aborted and state.sent("complete") == messages
    )


def fails_when_it_must(state: TermState) -> bool:
    return len(state.arguments_of("restart") + state.arguments_of("give_up")) == state.must_fail


def watches_doubts(state: TermState) -> bool:
    is_new = state.kind == "unsettled_sink" and not set(state.b) <= state.doubts.get(state.a, {}).keys()
    return state.timers("settle_deadline") == [state.configuration.settle_deadline] * is_new


def watches_the_end(state: TermState) -> bool:
    begins = state.final != 0 and (state.kind == "start" or (state.has_completed and state.a == state.final))
    goes_on = state.kind == "closing" and not state.must_fail
    return state.timers("closing") == [state.configuration.closing_patience] * (begins or goes_on)


def finishes_when_all_are_closed(state: TermState) -> bool:
    all_are = state.kind == "closed_sink" and state.closed | {state.a} >= state.sinks
    return (("finish",) in state.effects) is (all_are or state.kind == "cancel")


def keeps_what_may_be_complete(state: TermState) -> bool:
    deletes = state.configuration.externalized_checkpoint_cleanup is Cleanup.DELETE_ON_CANCELLATION
    undecided = [one for one in state.pending if not state.is_decided(one)]
    return state.kind != "cancel" or state.arguments_of("discard") == [*undecided, *[RETAINED] * deletes]


RULES: Final[dict[str, Callable[[TermState], bool]]] = {
    "a checkpoint begins when it is due, has room, and the pause is over; its number is the next": begins_when_it_may,
    "a checkpoint begins at every source, aligned at the end of input, and has a timeout": begins_at_all_sources,
    "each tick of the interval sets the timer of the next tick": ticks,
    "a checkpoint is decided when all subtasks have voted, once": decides_when_all_have_voted,
    "abort notifications go to every subtask, before completion notifications to every sink": notifies_of_aborts_first,
    "an attempt fails when it must, and only then": fails_when_it_must,
    "a time limit begins for each checkpoint that is newly in doubt": watches_doubts,
    "a time limit begins when the last checkpoint is complete": watches_the_end,
    "the job is finished when every sink is closed": finishes_when_all_are_closed,
    "a cancelled job keeps checkpoints that may be complete": keeps_what_may_be_complete,
}
