"""How does an attempt run as an operating-system process, killed by SIGKILL?

`ProcessHost` (process_host.py) forks attempts and strikes them; command_host.py does so for sinks that are commands.
May import: the shells' common modules, checkpointing, dataflow, chaos.
"""
