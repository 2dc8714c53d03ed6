"""What does the main command do, from a list of subjects to one certificate?

`certify` (certify.py) tries the canaries, then every subject in every shell, each in a process of its own
(task_processes.py); claim_verdicts.py merges what the shells found; `replay` (replay.py) runs one schedule again.
May import: every other part of the harness but cli and pytest_plugin.
"""
