"""How does an attempt run as an operating-system process, killed by SIGKILL?

`ProcessHost` (process_host.py) forks attempts and arms their faults; command_host.py hosts sinks that are commands.
May import: the shells' common modules, checkpointing, dataflow, chaos.
"""
