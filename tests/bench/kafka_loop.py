"""The peer by hand: consume, transform, produce, all in one transaction with the offsets, as tutorials write it.

usage: kafka_loop.py ENDPOINT FROM TO PARTITION ROWS. Prints the time of its first and of its last commit, and the rows
between the two.
"""

from __future__ import annotations

import sys
from time import monotonic

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition

COMMIT_SECONDS = 0.2


def main(endpoint: str, topics: tuple[str, str], partition: int, rows: int) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": endpoint,
            "group.id": f"bench-loop-{partition}",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.queue.backoff.ms": 10,  # or it waits for its own queue: see kafka_source.py
        }
    )
    consumer.assign([TopicPartition(topics[0], partition, OFFSET_BEGINNING)])
    producer = Producer({"bootstrap.servers": endpoint, "transactional.id": f"bench-loop-{partition}", "linger.ms": 5})
    producer.init_transactions()
    moved = moved_first = 0
    first = 0.0
    while moved < rows:
        moved += transaction(consumer, producer, topics[1], rows - moved)
        first, moved_first = (first, moved_first) if first else (monotonic(), moved)
    print(first, monotonic(), moved - moved_first)


def transaction(consumer: Consumer, producer: Producer, topic: str, most: int) -> int:
    producer.begin_transaction()
    until, moved = monotonic() + COMMIT_SECONDS, 0
    while moved < most and monotonic() < until:
        for message in consumer.consume(2000, timeout=0.05):
            send(producer, topic, message)
            moved += 1
        producer.poll(0)
    producer.send_offsets_to_transaction(consumer.position(consumer.assignment()), consumer.consumer_group_metadata())
    producer.commit_transaction()
    return moved


def send(producer: Producer, topic: str, message: Message) -> None:
    while True:
        try:
            producer.produce(topic, message.value().upper(), message.key())
            return
        except BufferError:
            producer.poll(0.05)


if __name__ == "__main__":
    main(sys.argv[1], (sys.argv[2], sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
