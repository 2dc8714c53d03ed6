"""Turns what a contract returns into a Sink: a sink is taken unchanged, a target gets a strategy around it.

The names of the methods decide the strategy. Targets in the style of Flink's classes are accepted too: a `begin()` that
makes its own transaction, a `send_values(rows, checkpoint_id, timestamp)`, a committer that is called with
`(subtask, checkpoint_id)`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from types import FunctionType, MethodType
from typing import Any, Final

from sinkproof.sink_adapters.protocol import REQUIRED_CALLS, Context, Row, Sink, call_if_there
from sinkproof.sink_adapters.strategies.idempotent import IdempotentSink
from sinkproof.sink_adapters.strategies.masked import MaskedSink
from sinkproof.sink_adapters.strategies.ownership_and_names import CheckpointPart, Transaction
from sinkproof.sink_adapters.strategies.plain import PlainSink
from sinkproof.sink_adapters.strategies.two_phase import TwoPhaseCommitSink
from sinkproof.sink_adapters.strategies.write_ahead import WriteAheadSink

PUBLISHING: Final = ("publish", "send_values")
LOOKUP: Final = ("is_committed", "is_checkpoint_committed")
RECORDING: Final = ("record", "commit_checkpoint")
Alternatives = tuple[str, ...]
BY_NAME: Final[dict[str, Callable[[CheckpointPart, Sequence[Row]], Any]]] = {  # how a parameter's name begins
    "checkpoint_id": lambda part, rows: part.checkpoint_id,
    "subtask": lambda part, rows: part.subtask,
    "timestamp": lambda part, rows: max(row.event_time_ms for row in rows),
    "rows": lambda part, rows: rows,
    "values": lambda part, rows: rows,
}


def adapt(thing: Any) -> Sink:
    """A Sink for what a contract's `sink` returned; `(target, committer)` is a write-ahead target in two objects.

    Raises TypeError, which names what is missing.
    """
    if isinstance(thing, type):
        raise TypeError(f"{thing.__name__} is a class; return an object of it: {thing.__name__}(...)")
    parts = thing if isinstance(thing, tuple) else (thing,)
    for _, calls, make in FAMILIES:
        if not _missing(parts, calls):
            _refuse_coroutines(parts, calls)
            return make(parts)
    raise TypeError(_explanation(parts))


def _refuse_coroutines(parts: Sequence[Any], calls: Sequence[Alternatives]) -> None:
    for names in calls:
        call = _find(parts, names)
        if inspect.iscoroutinefunction(call):
            raise TypeError(
                f"{getattr(call, '__qualname__', names[0])} is `async def`, and nothing awaits it. Make it a function "
                "that returns when all is done, as by asyncio.run(...)"
            )


def family_of(cls: type) -> str:
    """What its methods make a class: "a sink", "a two-phase target". Raises TypeError, which names what is missing."""
    for name, calls, _ in FAMILIES:
        if not _missing((cls,), calls):
            return name
    raise TypeError(_explanation((cls,)))


def _missing(parts: Sequence[Any], calls: Sequence[Alternatives]) -> list[str]:
    return [names[0] for names in calls if _find(parts, names) is None]


def _find(parts: Sequence[Any], names: Alternatives) -> Callable[..., Any] | None:
    """The first of the methods that one of the parts has."""
    for name in names:
        for part in parts:
            call = getattr(part, name, None)
            if callable(call):
                return call  # type: ignore[no-any-return]
    return None


def _explanation(parts: Sequence[Any]) -> str:
    """Names the nearest family and the methods that it lacks."""
    gaps = [(name, calls, _missing(parts, calls)) for name, calls, _ in FAMILIES]
    has_most = max(len(calls) - len(missing) for _, calls, missing in gaps)
    kinds = " with ".join((part if isinstance(part, type) else type(part)).__name__ for part in parts)
    if not has_most:
        return f"{kinds} is neither a sink nor a target: it has none of their methods. {_kinds_in_words()}"
    name, calls, missing = min(
        (gap for gap in gaps if len(gap[1]) > len(gap[2])), key=lambda gap: (len(gap[2]) / len(gap[1]), len(gap[2]))
    )
    has = [names[0] for names in calls if names[0] not in missing]
    return f"{kinds} has {', '.join(has)}, but lacks {', '.join(missing)} to be {name}. {_kinds_in_words()}"


def _kinds_in_words() -> str:
    kinds = [f"{name}: {', '.join(names[0] for names in calls)}" for name, calls, _ in FAMILIES]
    return f"What can be used is {'; '.join(kinds)}"


# -- the families --------------------------------------------------------------------------------


def _two_phase(parts: Sequence[Any]) -> Sink:
    (target,) = parts
    return TwoPhaseCommitSink(target if _takes(target.begin) else SelfNamingTarget(target))


def _write_ahead(parts: Sequence[Any]) -> Sink:
    ours = [part for part in parts if _is_ours(part)]
    if len(ours) == len(parts):
        return WriteAheadSink(parts[0], parts[-1])
    both = RenamedWriteAheadTarget(parts)
    return WriteAheadSink(both, both)


def _is_ours(part: Any) -> bool:
    """Whether its methods are those of our protocols, with their parameters."""
    calls = [(getattr(part, name, None), count) for name, count in (("publish", 2), ("is_committed", 1), ("record", 1))]
    found = [(call, count) for call, count in calls if call is not None]
    return bool(found) and all(_takes(call) == count and not _wanted(call) for call, count in found)


FAMILIES: Final[tuple[tuple[str, tuple[Alternatives, ...], Callable[[Sequence[Any]], Sink]], ...]] = (
    ("a sink", tuple((name,) for name in REQUIRED_CALLS), lambda parts: parts[0]),
    (
        "a two-phase target",
        (("begin",), ("write",), ("pre_commit",), ("commit",), ("abort",)),
        _two_phase,
    ),
    ("a write-ahead target", (PUBLISHING, LOOKUP, RECORDING), _write_ahead),
    ("a masked target", (("stage",), ("reveal",), ("collect",)), lambda parts: MaskedSink(parts[0])),
    ("an upsert target", (("upsert",),), lambda parts: IdempotentSink(parts[0])),
    ("an append target", (("append",),), lambda parts: PlainSink(parts[0])),
)


def _parameters(call: Callable[..., Any]) -> list[str]:
    """Names of the positional parameters without a default; empty where they are unknown, as for methods in C."""
    if type(call) is MethodType and type(call.__func__) is FunctionType and not vars(call.__func__):
        code, defaults = call.__func__.__code__, call.__func__.__defaults__ or ()
        return [*code.co_varnames[1 : code.co_argcount - len(defaults)]]  # each attempt asks, and inspect takes 0.4 ms
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    wanted = (parameter for parameter in parameters if parameter.kind in kinds)
    return [parameter.name for parameter in wanted if parameter.default is parameter.empty]


def _takes(call: Callable[..., Any]) -> int:
    return len(_parameters(call))


def _wanted(call: Callable[..., Any]) -> list[str]:
    """Parameters that are passed by name, not by position, except those of our own `publish(part, rows)`."""
    names = _parameters(call)
    return [name for at, name in enumerate(names) if name.startswith(tuple(BY_NAME)) and (at, name) != (1, "rows")]


class SelfNamingTarget:
    """A two-phase target with a `begin()` that takes nothing and returns its own transaction."""

    def __init__(self, target: Any) -> None:
        self.target = target
        for name in ("write", "pre_commit", "commit", "abort"):
            setattr(self, name, getattr(target, name))

    def begin(self, transaction: Transaction) -> Any:
        given = self.target.begin()
        if given is None:
            raise TypeError(f"{type(self.target).__name__}.begin() takes no name and returned no transaction")
        return given

    def __getattr__(self, name: str) -> Any:
        return getattr(self.target, name)


class RenamedWriteAheadTarget:
    """A write-ahead target and its committer, in one object or two, with other names or parameters."""

    def __init__(self, parts: Sequence[Any]) -> None:
        self.parts = parts
        send, look_up, record = (_find(parts, names) for names in (PUBLISHING, LOOKUP, RECORDING))
        assert send is not None
        assert look_up is not None
        assert record is not None
        self._send, self._look_up, self._record = send, look_up, record
        if (collect := _find(parts, ("collect",))) is not None:
            self.collect = collect

    def attach(self, context: Context) -> None:
        for part in self.parts:
            call_if_there(part, "attach", context)
            opens = getattr(part, "open", None)
            if opens is not None:
                opens(*[context][: _takes(opens)])

    def publish(self, part: CheckpointPart, rows: Sequence[Row]) -> object:
        return self._send(*_arguments(self._send, part, rows))

    def is_committed(self, part: CheckpointPart) -> bool:
        return bool(self._look_up(*_arguments(self._look_up, part, ())))

    def record(self, part: CheckpointPart) -> None:
        self._record(*_arguments(self._record, part, ()))

    def close(self) -> None:
        for part in self.parts:
            call_if_there(part, "close")


def _arguments(call: Callable[..., Any], part: CheckpointPart, rows: Sequence[Row]) -> list[Any]:
    """By the parameters' names where they are known ones, else by position."""
    names = _parameters(call)
    if rows:
        positions: list[Any] = [rows, part.checkpoint_id] if call.__name__ == "send_values" else [part, rows]
    else:
        positions = [part.subtask, part.checkpoint_id] if len(names) == 2 else [part]
    if not names:
        return positions
    found: list[Any] = []
    for position, name in enumerate(names):
        kind = next((kind for kind in BY_NAME if name.startswith(kind)), None)
        found.append(positions[position] if kind is None else BY_NAME[kind](part, rows))
    return found
