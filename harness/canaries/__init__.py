"""Would a defect of each root cause be found? Sinks with one deliberate defect each, beside their correct controls.

catalogue.py lists them (`Canary`); try_canaries.py tries them before a certificate is trusted; search.py is a canary's
campaign; kill_table.py prints the result. The sinks themselves are in the files that catalogue.py imports.
May import: campaign and everything below.
"""
