"""What do processes that may be killed at any time tell each other?

Files and shared memory that outlive their writer's SIGKILL: the armed fault, the journal and the counts of points
passed, the event log. May import: chaos only.
"""
