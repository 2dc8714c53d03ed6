"""What can be typed?

main.py holds the group of all commands; each command is one module named after it (`certify_command.py`), and the
options that several commands share stand in service_options.py. `doctor` says what this machine lacks.
May import: everything; nothing imports it.
"""
