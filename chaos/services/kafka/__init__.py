"""How is a Kafka cluster installed, configured, run on loopback or reached? Main value: `KAFKA`. May import: chaos
only."""
