"""How is a process forked in a millisecond, spoken to, killed and buried?

`ForkServer` and `Processes` (spawn.py) make them, `Child` (child.py) is one of them as its caller sees it.
May import: chaos only.
"""
