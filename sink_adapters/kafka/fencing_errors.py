"""What a client says when a newer attempt has taken over its transactional id, in the words of the protocol."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sinkproof.sink_adapters.kafka.records import Sender, SendFailed
from sinkproof.sink_adapters.protocol import Fenced

FENCING: Final = frozenset({"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING"})


@contextmanager
def fencing_told(sender: Sender) -> Iterator[None]:
    """Fenced for all that means it, however the binding says it; the rest as it is."""
    from confluent_kafka import KafkaException

    try:
        yield
    except KafkaException as error:
        if error.args[0].name() in FENCING:
            raise Fenced(str(error)) from error
        raise
    except SystemError as error:  # the binding, when a callback is due and the client is broken for good
        if not isinstance(error.__cause__, KafkaException):
            raise
        if error.__cause__.args[0].name() in FENCING:
            raise Fenced(str(error.__cause__)) from error
        raise SendFailed(str(error.__cause__)) from error
    except SendFailed as error:
        if any(problem.name() in FENCING for problem in sender.problems):
            raise Fenced(str(error)) from error
        raise
