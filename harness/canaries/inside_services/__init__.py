"""Does the certifier see a service that is wrong inside, between two writes of its own commit?

`TWO_FILE_STORE` and `HASTY_STORE` (two_file_store.py) are small servers, which differ in the order of two lines;
on_two_file_store.py has the contracts that use them. May import: chaos, sink_adapters, subject, the other canaries.
"""

INSIDE_SERVICE = "inside-service"  # in place of a shell: where the canaries are services
