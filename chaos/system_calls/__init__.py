"""Which system calls of a program change something outside of it, and how is it struck before one of them?

`SystemCallWatch` (supervisor.py) is the main type: it answers the calls that a filter (seccomp_filter.py) hands to it,
and injects faults there. outward_calls.py lists the calls with their numbers, place_names.py names a call in schedules,
watched_program.py runs a whole program under the watch. May import: points, clock, processes.
"""
