"""How does a client reach a Kafka cluster, also one that wants TLS and a password?

An address may name a file with these settings (client_settings.py); broker_connection.py sends one request at a time.
May import: nothing of ours. It lies below chaos and the sinks, because both reach brokers.
"""
