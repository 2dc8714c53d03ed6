"""Records of the Kafka benchmarks: numbered, 100 bytes each; produced and read back."""

from __future__ import annotations

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

VALUE_BYTES, KEYS, DIGITS = 92, 1000, 9  # and a key of 8 bytes
PARTITIONS = 2


def fill(endpoint: str, topic: str, rows: int) -> None:
    """Number n goes to partition n modulo 2."""
    options = {"bootstrap.servers": endpoint, "linger.ms": 5, "batch.size": 1 << 20, "delivery.report.only.error": True}
    producer = Producer(options)
    keys = [f"k{number:07d}" for number in range(KEYS)]
    for number in range(rows):
        value = f"{number:0{DIGITS}d}".ljust(VALUE_BYTES, "x")
        while True:
            try:
                producer.produce(topic, value, keys[number % KEYS], number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.05)
    if producer.flush(120):
        raise RuntimeError("the broker did not take everything in time")


def upper(value: bytes) -> bytes:
    """What every peer does to each value."""
    return value.upper()


def difference(endpoint: str, topic: str, rows: int) -> str:
    """What a read_committed reader misses, or sees too often; "" if nothing."""
    seen = bytearray(rows)
    consumer = Consumer(
        {
            "bootstrap.servers": endpoint,
            "group.id": "bench-reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
    ended: set[int] = set()
    more = 0
    while len(ended) < PARTITIONS:
        for message in consumer.consume(5000, timeout=30):
            if message.error() is not None:
                ended.add(message.partition())
                continue
            number = int(message.value()[:DIGITS])
            more += seen[number]
            seen[number] = 1
    consumer.close()
    lost = rows - sum(seen)
    return f"{lost:,} rows lost, {more:,} too many" if lost or more else ""
