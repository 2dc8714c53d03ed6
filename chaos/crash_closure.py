"""The closure over whole-job crashes: every durable state that any sequence of crashes can leave, one run from each.

A run from a state passes points; a crash at a point leaves the durable state of that moment. A state that is new joins
the worklist. When the worklist is empty, every sequence of any number of crashes is covered; when it never becomes
empty, residue accumulates, which is a finding of its own. The explorer does not depend on files or databases: it
explores an ExploredWorld with states that are opaque values with a text.

States that differ only in names are merged (canonical_names.py). That is sound only for sinks that treat names as
opaque, so the *merge audit* runs both states of some merges and compares. An exploration is recorded as *walks*: the
numbers of the states that each run passed, in order. Two worlds that differ in names only have equal walks.

A run from one state may have several continuations: a world returns them as *branches*, which are run as well.

A world may end a run in a state that an earlier run reached, or skip it: the rest is known and was visited. One in
fifty of the runs that ended early, and one in five hundred of the skipped ones, is run in full all the same: if it
reaches an unknown state or other findings, the closure is not complete. A run that breaks a claim is always run in
full.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from math import inf
from typing import Any, Final, Generic, Protocol, TypeVar

from sinkproof.chaos.canonical_names import canonical

State = TypeVar("State")
BEGINNING: Final = b""
MERGES_AUDITED_MOST: Final = 20
ENDED_EARLY_AUDITED_EVERY: Final = 50  # dozens in the closures of a file sink
NOT_BEGUN_AUDITED_EVERY: Final = 500  # there are 20,000 to 140,000 of them where partial deaths are explored, too


@dataclass(frozen=True, slots=True)
class ExploredRun:
    """The result of one run. `known`: the number of points that it skipped, because an earlier run had reached the same
    state. `is_wrong`: a finding breaks a claim. `was_run`: False if all of it was skipped.
    """

    findings: Sequence[Any] = ()
    known: int = 0
    is_wrong: bool = False
    was_run: bool = True


class ExploredWorld(Protocol[State]):
    """A system with a durable state that the explorer can freeze and run from."""

    def beginnings(self) -> Sequence[State]:
        """The initial states: the empty state, possibly several times with different events to come."""

    def version(self) -> Any:
        """Cheap; equal as long as the durable state is unchanged. None: unknown."""

    def exact(self) -> int | None:
        """A hash of the durable state, cheaper than its text. None: not available."""

    def text(self) -> str:
        """The current durable state, in a fixed order."""

    def point(self) -> str:
        """The point that was passed last: where a crash leaves the current durable state."""

    def freeze(self) -> State: ...

    def run(self, state: State, visit: Callable[[], None] | None, *, in_full: bool = False) -> ExploredRun:
        """Runs from a state to the end; calls `visit` wherever a crash is possible. `in_full`: skips nothing."""

    def branches(self, state: State) -> Sequence[State]:
        """Called after the run from a new state: its other continuations. A branch has no branches."""


@dataclass(slots=True)
class ExploredClosure(Generic[State]):
    """The extent of the exploration and its findings."""

    states: int = 0  # that a crash has left, and from which a run was made
    runs: int = 0
    joined: int = 0  # of them: ended in a state from which an earlier run had gone on
    crashes: int = 0  # points visited: each is a crash; its recovery is run, here or from an equal state
    crashed: Counter[str] = field(default_factory=Counter)  # point -> such states
    covered: Counter[str] = field(default_factory=Counter)  # point -> other crashes there that leave one of them
    complete: bool = False
    why: str = ""
    depth: int = 0
    merges_audited: int = 0
    merges_differing: int = 0
    findings: list[tuple[State, Any]] = field(default_factory=list)
    walks: list[tuple[int, ...]] = field(default_factory=list)  # of each run: the numbers of the states that it passed
    growing: State | None = None  # the deepest state, if the number of states has no bound


def digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "backslashreplace"), digest_size=16).digest()


class Explorer(Generic[State]):
    """Explores one world, up to `depth_most` consecutive crashes.

    `go_on` is called before each run; when it returns False, the closure is reported as bounded. `ran` is called
    after each run from a state.
    """

    def __init__(
        self,
        world: ExploredWorld[State],
        *,
        go_on: Callable[[ExploredClosure[State]], bool],
        states_most: int = 20_000,
        depth_most: float = inf,
        ran: Callable[[State, Sequence[Any]], None] = lambda state, findings: None,
    ) -> None:
        self.world, self.go_on, self.states_most, self.depth_most = world, go_on, states_most, depth_most
        self.ran = ran
        self.result: ExploredClosure[State] = ExploredClosure()
        self.first: dict[bytes, tuple[int, State]] = {}  # canonical key -> (depth, the state that was run)
        self.keys: dict[int, bytes] = {}  # hash of a text, or of an exact state -> canonical key
        self.numbers: dict[bytes, int] = {}
        self.merged: list[tuple[bytes, State]] = []
        self.passed: dict[bytes, Counter[str]] = {}  # canonical key -> points passed in this state until it has run
        self.last_version: Any = object()
        self.last_key = b""
        self.is_repeated = False  # a run that was made before
        # Crashes before it, the state, its canonical key: BEGINNING for the first ones, None for a branch.
        self.work: deque[tuple[int, State, bytes | None]] = deque()
        self.walk: list[int] = []
        self.ended_early, self.not_begun = 0, 0  # runs

    def explore(self) -> ExploredClosure[State]:
        result = self.result
        self.work.extend((0, start, BEGINNING) for start in self.world.beginnings())
        while self.work and len(self.first) < self.states_most and self.go_on(result):
            depth, state, key = self.work.popleft()
            self.last_version, self.walk = object(), []
            visit = partial(self._visit, depth) if depth < self.depth_most else None
            run = self.world.run(state, visit)
            if run.known or not run.was_run:
                run = self._check_skipped(run, state, visit)
            result.runs += run.was_run
            result.joined += run.known > 0
            if key:
                self._has_run(key)
            result.findings += [(state, anomaly) for anomaly in run.findings]
            if run.was_run:
                self.ran(state, run.findings)
            result.walks.append(tuple(self.walk))
            if key is not None and visit is not None:
                self.work.extend((depth, branch, None) for branch in self.world.branches(state))
        self._conclude()
        return result

    def _has_run(self, key: bytes) -> None:
        """One crash has left the state that was run; the others at the points passed in it are covered by that run."""
        result, passed = self.result, self.passed.pop(key)
        first = next(iter(passed))
        passed[first] -= 1
        result.states += 1
        result.crashed[first] += 1
        result.covered += passed

    def _check_skipped(self, run: ExploredRun, state: State, visit: Callable[[], None] | None) -> ExploredRun:
        """The same run; in full if its audit is due or it breaks a claim."""
        result = self.result
        result.crashes += run.known if visit is not None else 0
        if not self._is_due(run) and not run.is_wrong:
            return run
        crashes, states, walk = result.crashes, len(self.first), self.walk
        self.last_version, self.walk = object(), []
        self.is_repeated = True
        full = self.world.run(state, visit, in_full=True)
        self.is_repeated = False
        as_known = not run.was_run or canonical(repr([*full.findings])) == canonical(repr([*run.findings]))
        result.merges_audited += 1
        result.merges_differing += not (as_known and len(self.first) == states)
        result.crashes, self.walk = crashes, walk
        return full

    def _is_due(self, run: ExploredRun) -> bool:
        if run.was_run:
            self.ended_early += 1
            return self.ended_early % ENDED_EARLY_AUDITED_EVERY == 0
        self.not_begun += 1
        return self.not_begun % NOT_BEGUN_AUDITED_EVERY == 0

    def _visit(self, depth: int) -> None:
        self.result.crashes += 1
        version, is_new = self.world.version(), False
        if version is None or version != self.last_version:
            self.last_version = version
            is_new = self._look(depth)
        if not is_new and not self.is_repeated:
            waiting = self.passed.get(self.last_key, self.result.covered)
            waiting[self.world.point()] += 1

    def _look(self, depth: int) -> bool:
        """At a durable state that may have changed. Returns whether it is a new one."""
        key, is_new_text = self._key()
        is_new = key not in self.first
        if is_new:
            self._join(key, depth)
        elif is_new_text and len(self.merged) < MERGES_AUDITED_MOST:
            self.merged.append((key, self.world.freeze()))
        self.last_key = key
        number = self.numbers[key]
        if not self.walk or self.walk[-1] != number:
            self.walk.append(number)
        return is_new

    def _key(self) -> tuple[bytes, bool]:
        """The key of the current durable state without names; and whether its text is new."""
        exact = self.world.exact()
        key = None if exact is None else self.keys.get(exact)
        if key is not None:
            return key, False
        text = self.world.text()
        raw = hash(text)  # the renaming is expensive: most texts are known unchanged
        key, is_new_text = self.keys.get(raw), raw not in self.keys
        if key is None:
            key = self.keys[raw] = digest(canonical(text))
        if exact is not None:
            self.keys[exact] = key
        return key, is_new_text

    def _join(self, key: bytes, depth: int) -> None:
        """Adds a new state to the worklist."""
        state = self.world.freeze()
        self.first[key] = (depth + 1, state)
        self.passed[key] = Counter([self.world.point()])
        self.result.depth = max(self.result.depth, depth + 1)
        self.work.append((depth + 1, state, key))
        self.numbers[key] = len(self.numbers)

    def _conclude(self) -> None:
        result = self.result
        if self.work:
            result.depth = self.work[0][0]  # every state of a lower depth was run
            branches = sum(key is None for _, _, key in self.work)
            also = f" and {branches:,} branches from others" if branches else ""
            result.why = f"{len(self.work) - branches:,} states{also} were not run yet when the budget ended"
            if len(self.first) >= self.states_most:
                result.growing = self.work[-1][1]
                result.why = f"more than {self.states_most} states: names or residue accumulate with every crash"
            return
        for key, state in self.merged:
            if not self.go_on(result):
                result.why = f"the budget ended after {result.merges_audited} of {len(self.merged)} merges were audited"
                return
            self._audit(state, self.first[key][1])
        result.complete = result.merges_differing == 0
        if not result.complete:
            result.why = f"{result.merges_differing} of {result.merges_audited} merged states behaved differently"

    def _audit(self, state: State, other: State) -> None:
        """Runs two states that are equal except for names, and compares the states that they pass."""
        passed = self._keys_from(state), self._keys_from(other)
        self.result.merges_audited += 1
        self.result.merges_differing += passed[0] != passed[1]

    def _keys_from(self, state: State) -> list[bytes]:
        keys: list[bytes] = []
        last: list[Any] = [object()]

        def record() -> None:
            version = self.world.version()
            if version is not None and version == last[0]:
                return
            last[0] = version
            key, _ = self._key()
            if not keys or keys[-1] != key:
                keys.append(key)

        self.world.run(state, record, in_full=True)
        return keys
