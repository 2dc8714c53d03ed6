"""What can a user type?

main.py holds the group of all commands. Each command is one module named after it (certify_command.py). Options that
several commands share: service_flags.py, command_parts.py; what all pipelines of `sinkproof run` do: pipeline_run.py.
May import: everything; nothing imports it.
"""
