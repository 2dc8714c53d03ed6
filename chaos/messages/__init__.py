"""How is a fault injected into one message between a sink and its broker?

message_proxy.py is a proxy between Kafka clients and brokers that parses the protocol; message_points.py names the
messages as points and arms the proxy (`MessageFaults`); message_sender.py kills the process that has sent one. May
import: chaos.points, chaos.schedule, and of chaos.processes the table of processes.
"""
