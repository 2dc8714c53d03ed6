"""How do the strategies write to Kafka?

`KafkaTransactions` (kafka_transactions.py), masked_topic.py and plain_topic.py are targets; transaction_control.py
settles transactions from a process that did not begin them, by requests of broker_requests.py. topic_reader.py reads.
May import: the sink protocol, strategies.
"""
