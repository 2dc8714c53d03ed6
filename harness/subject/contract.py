"""Finding, checking and completing what a user wrote: the contract of one sink.

A contract is a plain class. Child processes find it again by its *locator*: a registry name (`files/two-phase`),
`path/to/file.py:Class` or `package.module:Class`.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable
from functools import cache, reduce
from inspect import isfunction
from math import inf
from operator import index, or_
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from sinkproof.subject.claims import Claim
from sinkproof.subject.scratch import Scratch

EXAMPLE: Final = """
    class MyContract:
        claims = Claim.EXACTLY_ONCE
        def sink(self, scratch): ...        # -> a Sink, or a two-phase or write-ahead target
        def committed(self, scratch): ...   # -> (split, offset) of every row that an independent reader sees
"""


# By the client library that a contract names: what `scratch.service` imports in every attempt.
SERVICE_MODULES: Final = {"confluent_kafka": "sinkproof.subject.kafka_service"}


class ContractError(ValueError):
    """A subject that cannot be certified as it is; the message says what happened, the evidence and the next step."""


class Contract:
    """A user's contract with everything optional filled in.

    Besides `claims`, `sink` and `committed`, a contract may offer more. Methods get the scratch; who offers a method
    lets the harness call it at any point of a run, between any two effects of a sink.

    setup, teardown      once around a run
    rows                 "append" (each row once), or "upsert" (the last of each key)
    grade                what is expected to be measured
    libraries            names of modules that attempts need and that take long to import: they are, once for all
    late_requests        True: a request may land after its repetition, as the sink uses each id and epoch once only
    side_by_side         True: runs in several processes at once never meet: all they share is named by the scratch
    rescales             False: a checkpoint is never restored with another parallelism
    seen                 (split, offset) of every row that a reader met who follows the output, repeats included
    residue              names of what is invisible and left over: NO_RESIDUE cannot be judged without it
    evidence             sentences in which the target itself says what is out of order; asked when something is
    complete             checkpoint ids, or (split, offset) of rows, that the sink's own marker calls complete
                         (`_SUCCESS`, a watermark): HONEST_MARKERS cannot be judged without it
    freeze, thaw         a copy of the target's durable state, and back to it
    while_powered        the same copy without what only a loss of power shows (which bytes were synced): runs that have
                         it in common end alike
    version, canonical   a number that each effect on the target raises; the target's state as text
    touched              a number that each request raises, also one that changes nothing. Sinks share nothing else: who
                         stands still between two requests is tried once for all lines in between. None: nobody counts
    second_sink          a sink of another vertex, whose `context.sink_id` differs, on the same target: a job with two
    expires_after        a number of seconds, the target's own limit: after it, transactions are aborted or markers
                         forgotten. The target must go by `scratch.clock`, which jumps beyond the limit then
    maintain             the target's maintenance runs: compaction, expiry, a janitor
    lose_power           the target loses what was not forced to disk: SURVIVES_POWER_LOSS cannot be judged without it
    lose_bytes           the same, but names (of files, of entries) had reached the disk; contents are torn
    lose_names           the same, but contents had reached the disk
    """

    def __init__(self, locator: str, given: Any) -> None:
        self.locator, self.given = locator, given
        self.claims = _claims(locator, given)
        self.claims_simulated = _named_claims(given, "claims_simulated")
        self.claims_beside = _named_claims(given, "claims_beside")
        self.grade: str | None = getattr(given, "grade", None)
        self.rows: str = getattr(given, "rows", "append")
        self.rescales: bool = getattr(given, "rescales", True)
        self.marks_points: bool = getattr(given, "marks_points", False)
        self.expires_after: float | None = _seconds(locator, given)
        self.copies: bool = callable(getattr(given, "freeze", None)) and callable(getattr(given, "thaw", None))
        self.is_ours = type(given).__module__.startswith("sinkproof.")  # and its modules remember nothing of attempts
        self._sinks: set[type] = set()  # types of objects that are sinks as they are

    @property
    def name(self) -> str:
        return str(getattr(self.given, "label", self.locator))

    @property
    def libraries(self) -> list[str]:
        """Modules to import once for all attempts."""
        named = [*getattr(self.given, "libraries", ())]
        return [*named, *(SERVICE_MODULES[name] for name in named if name in SERVICE_MODULES)]

    def sink(self, scratch: Scratch) -> Any:
        from sinkproof.sink_adapters.strategies.adapt_to_sink import adapt

        try:
            made = self.given.sink(scratch)
            sink = made if type(made) in self._sinks else adapt(made)
        except TypeError as error:
            raise ContractError(f"{self.locator}: sink() cannot be used: {error}") from error
        if sink is made:
            self._sinks.add(type(made))
        return sink

    def second_sink(self, scratch: Scratch) -> Any:
        from sinkproof.sink_adapters.strategies.adapt_to_sink import adapt

        return adapt(self.given.second_sink(scratch))

    def offers(self, name: str) -> bool:
        """Whether the contract has this optional attribute or method."""
        return getattr(self.given, name, None) is not None

    def committed(self, scratch: Scratch) -> list[tuple[int, int]]:
        return _identities(self.locator, "committed", self.given.committed(scratch))

    def seen(self, scratch: Scratch) -> list[tuple[int, int]] | None:
        """What a reader that follows the output met, repeats included; None where the contract does not say."""
        call = getattr(self.given, "seen", None)
        return None if call is None else _identities(self.locator, "seen", call(scratch))

    def optional(self, name: str) -> Callable[..., Any] | None:
        call = getattr(self.given, name, None)
        return call if callable(call) else None

    def call_if_there(self, name: str, scratch: Scratch) -> None:
        if (call := self.optional(name)) is not None:
            call(scratch)


def _named_claims(given: Any, name: str) -> Claim:
    return reduce(or_, (Claim[claim] for claim in getattr(given, name, ())), Claim(0))


def _seconds(locator: str, given: Any) -> float | None:
    limit = getattr(given, "expires_after", None)
    if limit is None:
        return None
    if isinstance(limit, bool) or not isinstance(limit, (int, float)) or not 0 < limit < inf:
        raise ContractError(f"{locator}: expires_after={limit!r} must be a number of seconds, greater than 0")
    return float(limit)


def _identities(locator: str, what: str, rows: Iterable[Any]) -> list[tuple[int, int]]:
    """What the reader itself raises while it is iterated goes through: perhaps there is nothing to be read yet."""
    problem = f"{locator}: {what}() must give (split, offset) pairs of integers"
    if not isinstance(rows, Iterable):
        raise ContractError(f"{problem}, not {type(rows).__name__}")
    given = list(rows)
    try:
        return [(index(row[0]), index(row[1])) for row in given]
    except (TypeError, IndexError, KeyError) as error:
        raise ContractError(f"{problem}: {type(error).__name__}: {error}. Its first row is {given[0]!r}") from error


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


@cache
def load(locator: str) -> Contract:
    """The contract that the locator names, checked. Raises ContractError with the next step."""
    from sinkproof.sink_adapters.registry import PAIRS
    from sinkproof.sink_adapters.service_pairs import SERVICE_PAIRS

    if locator.startswith("command:"):
        from sinkproof.subject.command_contract import CommandContract

        return Contract(locator, CommandContract(locator))
    pairs = {**PAIRS, **SERVICE_PAIRS}
    if locator in pairs:
        return Contract(locator, pairs[locator].contract())
    if ":" not in locator:
        near = ", ".join(sorted(pairs))
        raise ContractError(
            f"unknown subject {locator!r}. Name a registered pair ({near}), "
            "or your own contract as path/to/file.py:Class or package.module:Class"
        )
    place, _, name = locator.rpartition(":")
    found: Any = _module(place, locator)
    for part in name.split("."):
        if not hasattr(found, part):
            raise ContractError(f"{locator}: there is no {part!r} in {place}. It holds: {_public(found)}")
        found = getattr(found, part)
    if isfunction(found):
        from sinkproof.subject.foreach_batch_contract import of_function

        return Contract(locator, of_function(locator, found))
    return check(locator, found)


def check(locator: str, found: Any) -> Contract:
    if isinstance(found, type):
        if "<locals>" in found.__qualname__:
            raise ContractError(
                f"{locator}: {found.__qualname__} is defined inside a function, where a child process cannot find it. "
                "Move it to the top level of its module"
            )
        try:
            found = found()
        except Exception as error:  # the border to somebody else's class: whatever it raises while it is made
            said = f"{type(error).__name__}: {error}"
            raise ContractError(f"{locator}: a contract is made without arguments, but: {said}") from error
    for name in ("sink", "committed"):
        if not callable(getattr(found, name, None)):
            raise ContractError(f"{locator}: it has no method {name}(scratch). A contract looks like this:\n{EXAMPLE}")
    return Contract(locator, found)


def locator_of(cls: type) -> str:
    """The locator by which another process finds this class."""
    module = sys.modules.get(cls.__module__)
    file = getattr(module, "__file__", None)
    if "<locals>" in cls.__qualname__:
        raise ContractError(
            f"{cls.__qualname__} is defined inside a function, where a child process cannot find it. "
            "Move it to the top level of its module"
        )
    if file is None:
        raise ContractError(f"{cls.__qualname__} is in no file (module {cls.__module__}); put it into one")
    return f"{file}:{cls.__qualname__}"


def _public(holder: Any) -> str:
    names = [name for name, value in vars(holder).items() if isinstance(value, type) and not name.startswith("_")]
    return ", ".join(sorted(names)) or "no class"


def _module(place: str, locator: str) -> ModuleType:
    try:
        if place.endswith(".py"):
            return _module_of_file(Path(place))
        return importlib.import_module(place)
    except ContractError:
        raise
    except (Exception, SystemExit) as error:  # the border to somebody else's module: whatever importing it raises
        raise ContractError(f"{locator}: importing {place} failed: {type(error).__name__}: {error}") from error


def _module_of_file(path: Path) -> ModuleType:
    path = path.resolve()
    if not path.is_file():
        raise ContractError(f"there is no file {path}")
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file and module.__name__ != "__main__" and Path(file) == path:
            return module
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))  # its neighbours are imported as they are when it is run
    name = path.stem if path.stem not in sys.modules else f"sinkproof_subject_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ContractError(f"{path} is not a Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
