"""How does a Spark cluster of several hosts run on one machine? Each host is a network namespace.

May import: the common modules of the services, chaos/processes.
"""
