"""A call into the client of an external system is a point, and can fail with an error of that client."""

from __future__ import annotations

import sys
import threading
from dataclasses import replace

import pytest
from cassandra import OperationTimedOut
from cassandra.cluster import Cluster, NoHostAvailable, Session
from confluent_kafka import KafkaError, KafkaException, Producer

from sinkproof.chaos import client_calls as client_calls_module
from sinkproof.chaos.client_calls import POINT, REQUEST, client_calls
from sinkproof.chaos.lines import Unanswered

REFUSED = 1  # a port at which no service listens


class Caught(Producer):
    """As a library does that has classes of its own around those in C."""

    def send(self) -> None:
        self.produce("topic", b"second")


def silent_producer(cls: type[Producer], **settings: object) -> Producer:
    return cls({"bootstrap.servers": f"127.0.0.1:{REFUSED}", "log_level": 0, **settings})


def failing_at(number: int, reached: list[str]):  # type: ignore[no-untyped-def]
    def reach(point: str) -> None:
        reached.append(point)
        if len(reached) == number:
            raise OSError("injected")

    return reach


@pytest.mark.parametrize("cls", [Producer, Caught])
def test_a_call_in_c_fails_before_it_has_done_anything(cls: type[Producer]) -> None:
    purged: list[bytes | None] = []
    producer, reached = silent_producer(cls, on_delivery=lambda _, record: purged.append(record.value())), list[str]()
    before = sys.getprofile()
    with client_calls(failing_at(2, reached)):
        producer.produce("topic", b"first")
        with pytest.raises(BufferError, match="Queue full: injected"):
            producer.send() if isinstance(producer, Caught) else producer.produce("topic", b"second")
    assert [POINT, POINT] == reached
    assert before is sys.getprofile()
    producer.purge()
    producer.flush()
    assert [b"first"] == purged


def test_calls_in_c_that_have_no_queue_time_out() -> None:
    producer, reached = silent_producer(Producer), list[str]()
    with client_calls(failing_at(1, reached)), pytest.raises(KafkaException, match="injected") as raised:
        producer.flush(0)
    assert KafkaError._TIMED_OUT == raised.value.args[0].code()


def test_a_call_in_cython_fails_and_what_it_calls_itself_is_no_point() -> None:
    connect, reached = Cluster.connect, list[str]()
    cluster = Cluster(["127.0.0.1"], port=REFUSED)
    with client_calls(failing_at(2, reached)):
        with pytest.raises(NoHostAvailable):
            cluster.connect()
        assert [POINT] == reached
        with pytest.raises(OperationTimedOut, match="injected"):
            Session.execute(None, "INSERT")
    assert [POINT, REQUEST] == reached
    assert Cluster.connect is connect
    cluster.shutdown()


def test_other_threads_and_other_modules_reach_no_point() -> None:
    producer, reached = silent_producer(Producer), list[str]()
    with client_calls(reached.append):
        thread = threading.Thread(target=producer.poll, args=(0,))
        thread.start()
        thread.join()
        b"text".hex()
    producer.poll(0)
    assert [] == reached


def unanswered(point: str) -> None:
    if point == REQUEST:
        raise Unanswered("injected: the reply was lost")


def test_a_request_in_c_is_carried_out_and_then_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records in the queue show it, as no broker is needed for them."""
    assert "commit_transaction" in client_calls_module.IN_C.requests
    monkeypatch.setattr(client_calls_module, "IN_C", replace(client_calls_module.IN_C, requests=("produce",)))
    purged: list[bytes | None] = []
    producer = silent_producer(Producer, on_delivery=lambda _, record: purged.append(record.value()))
    before = sys.getprofile()
    with client_calls(unanswered), pytest.raises(KafkaException, match="injected: the reply was lost"):
        producer.produce("topic", b"row")
    assert before is sys.getprofile()
    producer.purge()
    producer.flush()
    assert [b"row"] == purged


def test_a_request_in_c_that_fails_by_itself_has_the_error_of_a_lost_reply() -> None:
    producer = silent_producer(Producer, **{"transactional.id": "id"})
    with client_calls(unanswered), pytest.raises(KafkaException, match="injected: the reply was lost"):
        producer.commit_transaction(0)


def test_a_request_in_cython_is_carried_out_and_then_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    carried_out: list[str] = []
    monkeypatch.setattr(Session, "execute", lambda _, statement: carried_out.append(statement), raising=True)
    with client_calls(unanswered), pytest.raises(OperationTimedOut, match="injected"):
        Session.execute(None, "INSERT")
    assert ["INSERT"] == carried_out
