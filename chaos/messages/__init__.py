"""Which message between a sink and its broker is struck, and by what?

message_proxy.py stands between Kafka clients and the broker and understands the protocol; message_points.py names the
messages as points and arms the proxy. May import: chaos only.
"""
