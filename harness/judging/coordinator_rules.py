"""The referee: what a coordinator was told and what it did about it, held against the rules that it has to keep.

A certificate says what a sink does under a coordinator that keeps its rules, so runs show that it did. The rules are
stated here once more, one by one, of what can be seen from outside: they share no line with the coordinator. One that
is broken is our own failure, whatever the sink did: nothing can be said of the sink then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from sinkproof.reference_engine.checkpointing.checkpoint_configuration import CheckpointConfiguration, Cleanup
from sinkproof.reference_engine.checkpointing.coordinator_log import CoordinatorTerm

FAILED: Final = ("declined", "expired", "not_durable")
OVER: Final = "who has restarted, given up or finished does nothing more"
RETAINED: Final = 0  # what is discarded under this number


def broken_rule(terms: Sequence[CoordinatorTerm], configuration: CheckpointConfiguration) -> str:
    """What is broken first, and where; empty if every coordinator has kept its rules."""
    return next((broken for term in terms for broken in Referee(term, configuration).watch()), "")


class Referee:
    """Follows one term. All attributes but those of the step say how things stood before it."""

    def __init__(self, term: CoordinatorTerm, configuration: CheckpointConfiguration) -> None:
        self.term, self.configuration = term, configuration
        self.subtasks = {subtask.id for subtask in term.plan.subtasks}
        self.sources = {subtask.id for subtask in term.plan.subtasks if subtask.source is not None}
        self.sinks = {subtask.id for subtask in term.plan.subtasks if subtask.sink}
        restored = term.record
        self.id_last = max(restored.checkpoint_id if restored else 0, term.checkpoint_id_last)
        self.final = restored.checkpoint_id if restored and restored.final else 0
        self.pending: dict[int, set[str]] = {}  # checkpoint -> who has acknowledged it
        self.ended, self.at_cut = set[int](), set[int]()  # sources; waiting for the next checkpoint to begin
        self.closed = set[int]()  # sinks
        self.doubts: dict[int, dict[int, float]] = {}  # sink -> checkpoint -> in doubt since
        self.failures, self.last_end = 0, float("-inf")  # in a row; of any checkpoint
        self.is_due, self.is_over = False, False

    def watch(self) -> Iterator[str]:
        for now, event, effects in self.term.steps:
            self.now, (self.kind, self.a, self.b), self.effects = now, event, effects
            self._hear()
            yield from (self._sentence(rule) for rule, is_kept in self._rules() if not is_kept(self))
            self._learn()

    def _rules(self) -> Iterable[tuple[str, Callable[[Referee], bool]]]:
        return [(OVER, lambda term: not term.effects)] if self.is_over else RULES.items()

    def _sentence(self, rule: str) -> str:
        return f"the coordinator, told {self.kind!r} at {self.now:g} ms, has broken a rule of its own: {rule}"

    # -- what was done -----------------------------------------------------------------------------

    def done(self, kind: str) -> list[Any]:
        return [effect[1] for effect in self.effects if effect[0] == kind]

    def told(self, word: str) -> dict[int, Any]:
        """Subtask -> what it was told."""
        return {effect[1]: list(effect[3:]) for effect in self.effects if effect[0] == "send" and effect[2] == word}

    def timers(self, kind: str) -> list[float]:
        return [effect[1] for effect in self.effects if effect[0] == "timer" and effect[2] == kind]

    @property
    def begun(self) -> list[int]:
        """Checkpoints."""
        return list(dict.fromkeys(checkpoint_id for checkpoint_id, _ in self.told("trigger").values()))

    # -- what follows from what was told -----------------------------------------------------------

    def _hear(self) -> None:
        if self.kind == "ended_source":
            self.ended.add(self.a)
        elif self.kind == "cut":
            self.at_cut.add(self.a)

    def _learn(self) -> None:
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
        self.is_over = self.is_over or bool(self.done("restart") or self.done("give_up")) or ("finish",) in self.effects

    def is_decided(self, checkpoint_id: int) -> bool:
        """All have voted for it."""
        return len(self.pending[checkpoint_id]) == len(self.subtasks)

    @property
    def has_failed(self) -> bool:
        """A checkpoint: one vote was a no or is missing, or the decision could not be written."""
        return (
            self.kind in FAILED and self.a in self.pending and self.is_decided(self.a) is (self.kind == "not_durable")
        )

    @property
    def has_completed(self) -> bool:
        return self.kind == "durable" and self.a in self.pending

    @property
    def has_ended(self) -> bool:
        return self.has_failed or self.has_completed

    @property
    def over_now(self) -> set[int]:
        """Checkpoints that nobody waits for any more."""
        if self.has_completed:
            return {one for one in self.pending if one <= self.a}
        return {self.a} if self.has_failed else set()

    @property
    def must_fail(self) -> bool:
        """The attempt."""
        if self.kind == "closing":
            return not self.closed.union(one for one, doubts in self.doubts.items() if doubts) >= self.sinks
        if self.kind == "settle_deadline":
            since = self.doubts.get(self.a, {}).values()
            return any(self.now - each >= self.configuration.settle_deadline for each in since)
        tolerated = self.failures < self.configuration.tolerable_checkpoint_failure_number
        return self.kind == "failed" or (self.has_failed and not tolerated)

    @property
    def is_wanted(self) -> bool:
        """The next checkpoint, now."""
        if self.kind in ("cut", "ended_source"):
            return self.ended | self.at_cut >= self.sources
        if self.has_ended:
            return not self.must_fail and (self.is_due or (self.has_failed and self.a == self.final))
        return self.kind in ("tick", "retrigger")

    @property
    def is_last_begun(self) -> bool:
        return self.final != 0 and not (self.has_failed and self.a == self.final)

    @property
    def has_room(self) -> bool:
        return len(self.pending.keys() - self.over_now) < self.configuration.concurrent

    @property
    def pause(self) -> float:
        """ms that are left until the next checkpoint may begin."""
        last_end = self.now if self.has_ended else self.last_end
        return last_end + self.configuration.min_pause_between_checkpoints - self.now

    @property
    def is_free(self) -> bool:
        return self.is_wanted and not self.is_last_begun and self.has_room


# -- the rules -------------------------------------------------------------------------------------


def begins_when_it_may(term: Referee) -> bool:
    begins, waits = term.is_free and term.pause <= 0, term.is_free and term.pause > 0
    return term.begun == [term.id_last + 1] * begins and term.timers("retrigger") == [term.pause] * waits


def begins_at_all_sources(term: Referee) -> bool:
    overtakes = term.configuration.unaligned and not term.ended >= term.sources
    said = {source: [one, term.now if overtakes else None] for one in term.begun for source in term.sources}
    patience = [term.configuration.checkpoint_timeout] * len(term.begun)
    return term.told("trigger") == said and term.timers("expired") == patience


def ticks(term: Referee) -> bool:
    begins = term.kind == "start" and term.configuration.interval is not None and not term.final
    return term.timers("tick") == [term.configuration.interval] * (begins or term.kind == "tick")


def decides_when_all_have_voted(term: Referee) -> bool:
    is_vote = term.kind == "acknowledged" and term.a in term.pending and not term.is_decided(term.a)
    is_last = is_vote and len(term.pending[term.a] | {term.b[0]}) == len(term.subtasks)
    decided = [(record.checkpoint_id, record.final) for record in term.done("persist")]
    return decided == [(term.a, term.a == term.final)] * is_last


def tells_who_must_know(term: Referee) -> bool:
    aborted = sorted(term.over_now - ({term.a} if term.has_completed else set()))
    words = [effect[2] for effect in term.effects if effect[0] == "send" and effect[2] in ("aborted", "complete")]
    if words != sorted(words) or words.count("aborted") != len(aborted) * len(term.subtasks):
        return False
    said = {sink: [term.a, term.a == term.final] for sink in term.sinks if term.has_completed}
    return term.kind in ("opened", "cancel") or (term.done("discard") == aborted and term.told("complete") == said)


def fails_when_it_must(term: Referee) -> bool:
    return len(term.done("restart") + term.done("give_up")) == term.must_fail


def watches_doubts(term: Referee) -> bool:
    is_new = term.kind == "unsettled_sink" and not set(term.b) <= term.doubts.get(term.a, {}).keys()
    return term.timers("settle_deadline") == [term.configuration.settle_deadline] * is_new


def watches_the_end(term: Referee) -> bool:
    begins = term.final != 0 and (term.kind == "start" or (term.has_completed and term.a == term.final))
    goes_on = term.kind == "closing" and not term.must_fail
    return term.timers("closing") == [term.configuration.closing_patience] * (begins or goes_on)


def finishes_when_all_are_closed(term: Referee) -> bool:
    all_are = term.kind == "closed_sink" and term.closed | {term.a} >= term.sinks
    return (("finish",) in term.effects) is (all_are or term.kind == "cancel")


def keeps_what_may_be_complete(term: Referee) -> bool:
    deletes = term.configuration.externalized_checkpoint_cleanup is Cleanup.DELETE_ON_CANCELLATION
    undecided = [one for one in term.pending if not term.is_decided(one)]
    return term.kind != "cancel" or term.done("discard") == [*undecided, *[RETAINED] * deletes]


RULES: Final[dict[str, Callable[[Referee], bool]]] = {
    "a checkpoint begins when it is due, has room, and the pause is over; its number is the next": begins_when_it_may,
    "it begins at every source, aligned at the end of input, and has its time limit": begins_at_all_sources,
    "the next tick follows a tick": ticks,
    "it is decided when all have voted, once": decides_when_all_have_voted,
    "who must know is told of what is aborted, then of what is complete": tells_who_must_know,
    "an attempt fails when it must, and only then": fails_when_it_must,
    "a time limit begins for whatever is newly in doubt": watches_doubts,
    "a time limit begins when the last checkpoint is complete": watches_the_end,
    "the job is finished when every sink is closed": finishes_when_all_are_closed,
    "a cancelled job keeps what may be complete": keeps_what_may_be_complete,
}
