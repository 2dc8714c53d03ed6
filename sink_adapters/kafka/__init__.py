"""How do the strategies write to Kafka?

`KafkaTransactions` (kafka_transactions.py), masked_topic.py and plain_topic.py are targets; wire_protocol.py settles
transactions from a process that did not begin them. May import: the sink protocol, strategies.
"""
