"""The closure over whole-job crashes: every durable state that any sequence of crashes can leave, one run from each.

A run from a state passes points; at each the durable state is what a crash there would leave. A state not seen before
joins the worklist. When the worklist is empty, every sequence of any number of crashes has been covered; when it never
empties, something accumulates, which is a finding of its own. The explorer knows nothing of files or databases: it sees
a World, and states of it as opaque values with a text.

States that differ only in names are one (canonical_text.py). That is sound only for sinks that do not look inside names, so the
*merge audit* runs both states of some merges and compares. What a whole exploration passed is kept as *walks*:
the numbers of states, in the order in which each run met them. Two worlds that differ in names only have equal walks.

From one state things may go on in several ways: a world names them as *branches*, which are run, too.

A world may end a run where it stands as an earlier one has stood, or not begin it: what follows is known, and was
visited. One in fifty of those that end early, and one in five hundred of those that were not begun, is done in full all
the same: if it leads to a state that nobody knows, or to other findings, the closure is not called complete. And what
breaks a claim is always run in full.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from math import inf
from typing import Any, Final, Generic, Protocol, TypeVar

from sinkproof.chaos.canonical_text import canonical

State = TypeVar("State")
MERGES_AUDITED_MOST: Final = 20
ENDED_EARLY_AUDITED_EVERY: Final = 50  # dozens in the closures of a file sink
NOT_BEGUN_AUDITED_EVERY: Final = 500  # there are 20,000 to 140,000 of them where partial deaths are explored, too


@dataclass(frozen=True, slots=True)
class Run:
    """What a run has shown. `known`: how many places it was spared, because it stood where an earlier one has stood.
    `is_wrong`: some of what was found breaks a claim. `was_run`: no, if it was spared altogether.
    """

    findings: Sequence[Any] = ()
    known: int = 0
    is_wrong: bool = False
    was_run: bool = True


class World(Protocol[State]):
    """What is being explored."""

    def beginnings(self) -> Sequence[State]:
        """Where to start: the empty state, perhaps several times, with other things to happen on the way."""

    def version(self) -> Any:
        """Cheap; equal as long as the durable state is the same. None: it cannot be told."""

    def exact(self) -> int | None:
        """A hash of the durable state as it is, cheaper than its text. None: there is none."""

    def text(self) -> str:
        """The durable state as it is now, in a fixed order."""

    def freeze(self) -> State: ...

    def run(self, state: State, visit: Callable[[], None] | None, *, in_full: bool = False) -> Run:
        """Runs from a state to the end, calling `visit` wherever a crash is possible. `in_full`: whatever is known."""

    def branches(self, state: State) -> Sequence[State]:
        """Asked after the run from a new state: in which other ways things may go on from it. No branch branches."""


@dataclass(slots=True)
class Closure(Generic[State]):
    """How far the exploration came, and what it found."""

    states: int = 0
    runs: int = 0
    crashes: int = 0  # places visited: each a crash whose aftermath was run, here or from an equal state
    complete: bool = False
    why: str = ""
    depth: int = 0
    merges_audited: int = 0
    merges_differing: int = 0
    findings: list[tuple[State, Any]] = field(default_factory=list)
    walks: list[tuple[int, ...]] = field(default_factory=list)  # of each run: the states it met, by number
    growing: State | None = None  # the deepest state, if there was no end of them


def digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "backslashreplace"), digest_size=16).digest()


class Explorer(Generic[State]):
    """Explores one world, up to `depth_most` crashes after each other.

    `go_on` is asked before each run; when it says no, the closure is reported as bounded.
    """

    def __init__(
        self,
        world: World[State],
        *,
        go_on: Callable[[Closure[State]], bool],
        states_most: int = 20_000,
        depth_most: float = inf,
    ) -> None:
        self.world, self.go_on, self.states_most, self.depth_most = world, go_on, states_most, depth_most
        self.result: Closure[State] = Closure()
        self.first: dict[bytes, tuple[int, State]] = {}  # canonical key -> (depth, the state that was run)
        self.keys: dict[int, bytes] = {}  # hash of a text, or of an exact state -> canonical key
        self.numbers: dict[bytes, int] = {}
        self.merged: list[tuple[bytes, State]] = []
        self.last_version: Any = object()
        self.work: deque[tuple[int, State, bool]] = deque()  # crashes before it, and whether it is a branch
        self.walk: list[int] = []
        self.ended_early, self.not_begun = 0, 0  # runs

    def explore(self) -> Closure[State]:
        result = self.result
        self.work.extend((0, start, False) for start in self.world.beginnings())
        while self.work and len(self.first) < self.states_most and self.go_on(result):
            depth, state, is_branch = self.work.popleft()
            self.last_version, self.walk = object(), []
            visit = partial(self._visit, depth) if depth < self.depth_most else None
            run = self.world.run(state, visit)
            if run.known or not run.was_run:
                run = self._spared(run, state, visit)
            result.runs += run.was_run
            result.findings += [(state, anomaly) for anomaly in run.findings]
            result.walks.append(tuple(self.walk))
            if not is_branch and visit is not None:
                self.work.extend((depth, branch, True) for branch in self.world.branches(state))
        result.states = len(self.first)
        self._conclude()
        return result

    def _spared(self, run: Run, state: State, visit: Callable[[], None] | None) -> Run:
        """The same run, in full if it is due or has gone wrong."""
        result = self.result
        result.crashes += run.known if visit is not None else 0
        if not self._is_due(run) and not run.is_wrong:
            return run
        crashes, states, walk = result.crashes, len(self.first), self.walk
        self.last_version, self.walk = object(), []
        whole = self.world.run(state, visit, in_full=True)
        as_said = not run.was_run or canonical(repr([*whole.findings])) == canonical(repr([*run.findings]))
        result.merges_audited += 1
        result.merges_differing += not (as_said and len(self.first) == states)
        result.crashes, self.walk = crashes, walk
        return whole

    def _is_due(self, run: Run) -> bool:
        if run.was_run:
            self.ended_early += 1
            return self.ended_early % ENDED_EARLY_AUDITED_EVERY == 0
        self.not_begun += 1
        return self.not_begun % NOT_BEGUN_AUDITED_EVERY == 0

    def _visit(self, depth: int) -> None:
        self.result.crashes += 1
        version = self.world.version()
        if version is not None and version == self.last_version:
            return
        self.last_version = version
        key, is_new_text = self._key()
        if key not in self.first:
            self._join(key, depth)
        elif is_new_text and len(self.merged) < MERGES_AUDITED_MOST:
            self.merged.append((key, self.world.freeze()))
        number = self.numbers[key]
        if not self.walk or self.walk[-1] != number:
            self.walk.append(number)

    def _key(self) -> tuple[bytes, bool]:
        """Of the durable state as it is now, but for names; and whether its text is new."""
        exact = self.world.exact()
        key = None if exact is None else self.keys.get(exact)
        if key is not None:
            return key, False
        text = self.world.text()
        raw = hash(text)  # the renaming is dear: most texts were seen as they are
        key, is_new_text = self.keys.get(raw), raw not in self.keys
        if key is None:
            key = self.keys[raw] = digest(canonical(text))
        if exact is not None:
            self.keys[exact] = key
        return key, is_new_text

    def _join(self, key: bytes, depth: int) -> None:
        """A new state is one to go on from."""
        state = self.world.freeze()
        self.first[key] = (depth + 1, state)
        self.result.depth = max(self.result.depth, depth + 1)
        self.work.append((depth + 1, state, False))
        self.numbers[key] = len(self.numbers)

    def _conclude(self) -> None:
        result = self.result
        if self.work:
            result.depth = self.work[0][0]  # whatever comes before was run
            branches = sum(is_branch for _, _, is_branch in self.work)
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
        """Equal but for names: do they pass through equal states, too?"""
        passed = self._keys_from(state), self._keys_from(other)
        self.result.merges_audited += 1
        self.result.merges_differing += passed[0] != passed[1]

    def _keys_from(self, state: State) -> list[bytes]:
        keys: list[bytes] = []
        last: list[Any] = [object()]

        def note() -> None:
            version = self.world.version()
            if version is not None and version == last[0]:
                return
            last[0] = version
            key, _ = self._key()
            if not keys or keys[-1] != key:
                keys.append(key)

        self.world.run(state, note, in_full=True)
        return keys
