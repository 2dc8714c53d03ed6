"""How is a process forked in a millisecond, sent messages, killed and reaped?

`ForkServer` (spawn.py) forks processes through the server in fork_server.py; `ChildProcess` (child.py) is the caller's
side of one of them, `Inside` (child_channel.py) the child's side. May import: chaos.clock only.
"""
