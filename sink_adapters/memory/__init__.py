"""How do the strategies write to a store in memory?

`MemoryStore` (memory_store.py) is the external system, memory_server.py runs it in a process of its own,
and memory_clients.py has a target for each strategy. May import: the sink protocol, strategies.
"""
