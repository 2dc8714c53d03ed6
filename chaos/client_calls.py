"""Makes the calls into clients of external systems points, at which one can fail before it has done anything; those
that wait until the system has done what it was sent can fail after that, too, as their reply is lost.

The interpreter reports calls of methods in C to a profile function. Methods in Python are replaced while this watches,
and those in Cython, too: their classes are as mutable. A call that one method of a client makes to another is no point;
nor is one of another thread.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from types import FrameType
from typing import Any, Final

from sinkproof.chaos.lines import Unanswered

POINT: Final = "client.call"
REQUEST: Final = "client.request"
PRODUCE: Final = "produce"  # of Kafka's producer: what it raises most often is that its queue is full
Reach = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """`classes`: those that speak to the external system. `requests`: their methods that return once it has carried
    out what it was sent. `error`: what they raise where it does not answer.
    """

    module: str
    classes: tuple[str, ...]
    requests: tuple[str, ...]
    error: Callable[[str], Exception]

    def loaded(self) -> tuple[type, ...]:
        """The classes; none while no code has imported the client."""
        module = sys.modules.get(self.module)
        return () if module is None else tuple(getattr(module, name) for name in self.classes)


def _kafka_error(said: str) -> Exception:
    client: Any = import_module("confluent_kafka")
    return client.KafkaException(client.KafkaError(client.KafkaError._TIMED_OUT, said))  # type: ignore[no-any-return]


def _cassandra_error(said: str) -> Exception:
    return import_module("cassandra").OperationTimedOut(said)  # type: ignore[no-any-return]


IN_C: Final = Client(
    module="confluent_kafka",
    classes=("Producer", "Consumer"),
    requests=("send_offsets_to_transaction", "commit_transaction"),
    error=_kafka_error,
)
IN_PYTHON: Final = Client(
    module="cassandra.cluster",
    classes=("Cluster", "Session", "ResponseFuture"),
    requests=("execute", "result"),
    error=_cassandra_error,
)


@contextmanager
def client_calls(reach: Reach) -> Iterator[None]:
    """`reach` is called right before each call of this thread. An OSError that it raises becomes an error of the
    client; the call is not made, or, after Unanswered, raises it once it has been carried out. Calls in C have no
    points from then on, as Python drops a profile function that raises.
    """
    before, in_c = sys.getprofile(), IN_C.loaded()
    replaced = [(cls, name) for cls in IN_PYTHON.loaded() for name in _methods(cls)]
    methods = [vars(cls)[name] for cls, name in replaced]
    watch = _Watch(reach)
    for (cls, name), method in zip(replaced, methods, strict=True):
        setattr(cls, name, watch.watched(method, name))
    if in_c:
        sys.setprofile(watch.profile_of(in_c))
    try:
        yield
    finally:
        sys.setprofile(before)
        for (cls, name), method in zip(replaced, methods, strict=True):
            setattr(cls, name, method)


def _methods(cls: type) -> list[str]:
    """Public ones that the class itself defines."""
    ignored = (property, staticmethod, classmethod, type)
    return [name for name, it in vars(cls).items() if name[0] != "_" and callable(it) and not isinstance(it, ignored)]


class _Watch:
    def __init__(self, reach: Reach) -> None:
        self.reach, self.thread, self.is_inside = reach, threading.get_ident(), False
        self.lost: tuple[Any, Unanswered] | None = None  # the call in C that goes on, and how its reply is lost

    def enter(self, client: Client, method: str) -> None:
        try:
            self.reach(REQUEST if method in client.requests else POINT)
        except Unanswered:
            raise
        except OSError as error:
            if method == PRODUCE:
                raise BufferError(f"Local: Queue full: {error}") from error
            raise client.error(str(error)) from error

    def profile_of(self, classes: tuple[type, ...]) -> Callable[[FrameType, str, Any], None]:
        def profile(frame: FrameType, event: str, called: Any) -> None:
            if event == "c_call" and isinstance(called.__self__, classes):
                try:
                    self.enter(IN_C, called.__name__)
                except Unanswered as error:
                    self.lost = called, error
            elif self.lost is not None and self.lost[0] is called and event != "c_call":
                lost, self.lost = self.lost[1], None
                raise IN_C.error(str(lost)) from lost

        return profile

    def watched(self, method: Callable[..., Any], name: str) -> Callable[..., Any]:
        @wraps(method)
        def call(*arguments: Any, **named: Any) -> Any:
            if self.is_inside or threading.get_ident() != self.thread:
                return method(*arguments, **named)
            lost: Unanswered | None = None
            try:
                self.enter(IN_PYTHON, name)
            except Unanswered as error:
                lost = error
            self.is_inside = True
            try:
                value = method(*arguments, **named)
            finally:
                self.is_inside = False
            if lost is not None:
                raise IN_PYTHON.error(str(lost)) from lost
            return value

        return call
