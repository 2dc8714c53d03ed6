"""What a user wrote about one sink, with everything optional filled in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from decimal import Decimal
from functools import partial, reduce
from itertools import chain, islice
from math import inf, isfinite
from operator import index, or_
from pathlib import Path
from typing import Any, Final, Literal

from sinkproof.chaos.error_text import described, message_of, printable
from sinkproof.chaos.processes.process_wide_state import subjects_state
from sinkproof.subject.claims import Claim
from sinkproof.subject.scratch import Scratch
from sinkproof.subject.servers_of_contracts import prepare_servers

SubjectKind = Literal["sink", "foreach_batch", "command"]


# By the client library that a contract names: what `scratch.service` and settling transactions import in every attempt.
SERVICE_MODULES: Final = {
    "confluent_kafka": ("sinkproof.subject.kafka_service", "sinkproof.sink_adapters.kafka.broker_requests")
}


ROWS_MOST: Final = 20_000_000  # the largest job has a million


class ContractError(ValueError):
    """A subject that cannot be certified; the message says what happened, the evidence and the next step."""


class Contract:
    """A user's contract: a plain class with `claims`, `sink(scratch)` and `committed(scratch)`, wrapped here.

    It may offer more, by attributes and by methods that take the scratch. A method is called at any point of a run,
    between any two effects of a sink.

    Once around a run
    setup, teardown      start servers and make tables; remove what is not below `scratch.path`

    Judging
    rows                 "append" (each row once), or "upsert" (the last of each key)
    grade                the grade that is expected to be measured
    seen                 (split, offset) of every row that a reader that follows the output receives, repeats included
    residue              names of leftovers that readers do not see; without it NO_RESIDUE is UNKNOWN
    complete             checkpoint ids, or (split, offset) of rows, that the sink's own marker calls complete
                         (`_SUCCESS`, a watermark); without it HONEST_MARKERS is UNKNOWN
    evidence             sentences in which the target itself reports errors; read only when an anomaly was found

    Speed: more runs in the same time, in the simulated shell unless stated otherwise
    committed_rows       what `committed` gives, with keys and values where these take long to read: called at the end
    freeze, thaw         copy the target's durable state, restore it; needed to simulate deaths inside sink code
    while_powered        the same copy without what only a loss of power shows (which bytes were synced): runs in states
                         with equal copies end alike
    version              a number that each effect on the target raises
    touched              a number that each request raises, a read included, if sinks share nothing but the target: all
                         suspensions between two requests are one case then. None: requests are not counted
    canonical            the target's state as text, in which equivalent states are equal
    libraries            names of modules that attempts import and that load slowly: imported once, before the fork
    side_by_side         True: runs may overlap in several processes, since the scratch names all that they share.
                         False: they never do. Without it they do where a watched run keeps to its folder

    More faults
    second_sink          a sink of another vertex, with another `context.sink_id`, on the same target: jobs with two
    rescales             False: a checkpoint is never restored with another parallelism
    late_requests        True: a request may reach the target after its repetition, as each id and epoch is used once
    expires_after        the target's own limit in seconds: later, transactions are aborted or markers forgotten. The
                         target must go by `scratch.clock`, which the fault `expire` moves beyond the limit
    maintain             runs the target's maintenance: compaction, expiry, a janitor
    lose_power           the target loses what was not forced to disk; without it SURVIVES_POWER_LOSS is examined for
                         files below `scratch.path` only, from system calls
    lose_bytes           the same, but names (of files, of entries) had reached the disk; contents are torn
    lose_names           the same, but contents had reached the disk
    """

    def __init__(self, locator: str, given: Any, *, kind: SubjectKind = "sink") -> None:
        self.locator, self.given, self.kind = locator, given, kind
        self._set_up: set[Path] = set()  # folders with a `setup` that no `teardown` has followed
        self.claims = self.claims_named = _claims(locator, given)
        if Claim.NO_LOSS in self.claims:
            self.claims |= Claim.INTACT_ROWS  # a row that arrives altered is not the row that was sent
        self.claims_simulated = _named_claims(given, "claims_simulated")  # judged where the simulated shell has run
        self.claims_beside = _named_claims(given, "claims_beside")  # not judged by the spark shell alone
        self.grade: str | None = getattr(given, "grade", None)
        self.rows = _rows(locator, given)
        self.rescales: bool = getattr(given, "rescales", True)
        self.marks_points: bool = getattr(given, "marks_points", False)  # the sink reaches named points itself
        self.expires_after: float | None = _seconds(locator, given)
        self.copies: bool = callable(getattr(given, "freeze", None)) and callable(getattr(given, "thaw", None))
        code = given.write_batch if kind == "foreach_batch" else type(given)
        ours = code.__module__.startswith("sinkproof.")
        self.is_ours = ours and kind != "command"  # and its modules keep nothing between attempts
        self._is_apart = kind == "foreach_batch" or not self.is_ours  # its code may change the whole process
        self._sinks: set[type] = set()  # types that are sinks without a strategy around them

    @property
    def name(self) -> str:
        return str(getattr(self.given, "label", self.locator))

    @property
    def libraries(self) -> list[str]:
        """Modules to import once for all attempts."""
        named = [*getattr(self.given, "libraries", ())]
        return [*named, *(module for name in named for module in SERVICE_MODULES.get(name, ()))]

    def sink(self, scratch: Scratch) -> Any:
        from sinkproof.sink_adapters.strategies.adapt_to_sink import adapt

        try:
            with self.state():
                made = self.given.sink(scratch)
                sink = made if type(made) in self._sinks else adapt(made)
        except TypeError as error:
            raise ContractError(f"{self.locator}: sink() cannot be used: {message_of(error)}") from error
        if sink is made:
            self._sinks.add(type(made))
        return sink

    def second_sink(self, scratch: Scratch) -> Any:
        from sinkproof.sink_adapters.strategies.adapt_to_sink import adapt

        with self.state():
            return adapt(self.given.second_sink(scratch))

    def state(self) -> AbstractContextManager[None]:
        """Within it, the process is as the contract's code has left it."""
        return subjects_state() if self._is_apart else nullcontext()

    @property
    def side_by_side(self) -> bool | None:
        """Whether runs may overlap, as the contract says; None: it does not say."""
        given = getattr(self.given, "side_by_side", None)
        return None if given is None else bool(given)

    def offers(self, name: str) -> bool:
        """Whether the contract has this optional attribute or method."""
        return getattr(self.given, name, None) is not None

    def committed(self, scratch: Scratch) -> list[tuple[int, int]]:
        with self.state():
            return self.identities(_listed(self.locator, "committed", self.given.committed(scratch)))

    def committed_rows(self, scratch: Scratch) -> list[Any]:
        """As the reader gives them. Raises what it raises while it is iterated: there may be nothing to read yet."""
        read = self.optional("committed_rows") or self.given.committed
        with self.state():
            return _listed(self.locator, "committed", read(scratch))

    def identities(self, rows: list[Any]) -> list[tuple[int, int]]:
        """Of rows that `committed` has given."""
        with self.state():
            return _identities(self.locator, "committed", rows)

    def seen(self, scratch: Scratch) -> list[tuple[int, int]] | None:
        """What a reader that follows the output received, repeats included; None where the contract does not say."""
        call = getattr(self.given, "seen", None)
        if call is None:
            return None
        with self.state():
            return _identities(self.locator, "seen", _listed(self.locator, "seen", call(scratch)))

    def optional(self, name: str) -> Callable[..., Any] | None:
        call = getattr(self.given, name, None)
        if not callable(call):
            return None
        return partial(self._call, call) if self._is_apart else call

    def _call(self, call: Callable[..., Any], *arguments: Any) -> Any:
        with self.state():
            answer = call(*arguments)
            return list(answer) if isinstance(answer, Iterator) else answer  # a generator runs in here

    def copy(self, scratch: Scratch) -> Any:
        with self.state():
            return self.given.freeze(scratch)

    def put_back(self, scratch: Scratch, copy: Any) -> None:
        with self.state():
            self.given.thaw(scratch, copy)

    def call_if_there(self, name: str, scratch: Scratch) -> None:
        """`teardown` ends what `setup` has begun: without one before it, nothing is called."""
        if name == "teardown" and scratch.path not in self._set_up:
            return
        (self._set_up.add if name == "setup" else self._set_up.discard)(scratch.path)
        if (call := self.optional(name)) is not None:
            prepare_servers()
            call(scratch)


def _named_claims(given: Any, name: str) -> Claim:
    return reduce(or_, (Claim[claim] for claim in getattr(given, name, ())), Claim(0))


def _rows(locator: str, given: Any) -> str:
    """A function or method of that name is something else."""
    rows = getattr(given, "rows", ROWS[0])
    if rows in ROWS:
        return str(rows)
    if callable(rows):
        return ROWS[0]
    raise ContractError(f"{locator}: rows={rows!r} must be {' or '.join(map(repr, ROWS))}")


def _seconds(locator: str, given: Any) -> float | None:
    limit = getattr(given, "expires_after", None)
    if limit is None:
        return None
    if isinstance(limit, bool) or not isinstance(limit, (int, float)) or not 0 < limit < inf:
        raise ContractError(f"{locator}: expires_after={limit!r} must be a number of seconds, greater than 0")
    return float(limit)


ROWS: Final = ("append", "upsert")
PAIRS: Final = "must give (split, offset) pairs of integers"


def _listed(locator: str, what: str, rows: Iterable[Any]) -> list[Any]:
    if not isinstance(rows, Iterable):
        raise ContractError(f"{locator}: {what}() {PAIRS}, not {type(rows).__name__}")
    given = list(islice(rows, ROWS_MOST))
    if len(given) == ROWS_MOST:
        raise ContractError(f"{locator}: {what}() does not end: it gave {ROWS_MOST:,} rows. No job has that many")
    return given


def _identities(locator: str, what: str, rows: list[Any]) -> list[tuple[int, int]]:
    try:
        pairs = [(row[0], row[1]) for row in rows]
        if {*map(type, chain.from_iterable(pairs))} <= {int}:  # nearly always
            return pairs
        return [(_integer(split), _integer(offset)) for split, offset in pairs]
    except (TypeError, IndexError, KeyError) as error:
        row = next(row for row in rows if not _is_pair(row))
        problem = f"{locator}: {what}() {PAIRS}: {described(error)}"
        raise ContractError(f"{problem}. Such a row is {_shown(row)}") from error


def _integer(number: Any) -> int:
    """Also of a number that JSON or a database has given as 3.0: a large one may be another one by then."""
    is_whole = isinstance(number, (float, Decimal)) and isfinite(number) and number == int(number)
    return int(number) if is_whole else index(number)


def _is_pair(row: Any) -> bool:
    with suppress(TypeError, IndexError, KeyError):
        return bool((_integer(row[0]), _integer(row[1])))
    return False


def _shown(row: Any) -> str:
    try:
        return printable(repr(row))
    except Exception as broken:  # the border to the row's own class
        return f"of the type {type(row).__name__}, and its text cannot be had ({type(broken).__name__})"


def _claims(locator: str, given: Any) -> Claim:
    claims = getattr(given, "claims", None)
    if isinstance(claims, Claim):
        return claims
    if isinstance(claims, str):
        claims = (claims,)
    if claims is None:
        raise ContractError(f"{locator}: it claims nothing. Say what is promised, e.g. claims = Claim.EXACTLY_ONCE")
    try:
        return reduce(or_, (Claim[name] for name in claims))
    except (KeyError, TypeError) as error:
        known = ", ".join(name for name in Claim.__members__)
        raise ContractError(f"{locator}: claims={claims!r} is not understood; known claims: {known}") from error
