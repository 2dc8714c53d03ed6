"""How do the strategies write to Cassandra?

masked_partitions.py and upserts_and_counters.py are targets. `CassandraClient` (cassandra_client.py) is the only user
of the driver.
May import: the sink protocol, strategies.
"""
