"""Translates a client's errors into `Fenced` if its transactional id was taken over."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sinkproof.sink_adapters.kafka.records import RecordSender, SendFailed
from sinkproof.sink_adapters.protocol import Fenced

FENCING: Final = frozenset({"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING"})


@contextmanager
def raising_fenced(sender: RecordSender) -> Iterator[None]:
    """Raises Fenced for every error of the client that means it; other errors pass."""
    from confluent_kafka import KafkaException

    try:
        yield
    except KafkaException as error:
        if error.args[0].name() in FENCING:
            raise Fenced(str(error)) from error
        raise
    except SystemError as error:  # raised by the binding when a callback is due and the client has a fatal error
        if not isinstance(error.__cause__, KafkaException):
            raise
        if error.__cause__.args[0].name() in FENCING:
            raise Fenced(str(error.__cause__)) from error
        raise SendFailed(str(error.__cause__)) from error
    except SendFailed as error:
        if any(problem.name() in FENCING for problem in sender.problems):
            raise Fenced(str(error)) from error
        raise
