"""How is a Cassandra cluster installed, configured and run on loopback? Main value: `CASSANDRA`. May import: chaos
only."""
