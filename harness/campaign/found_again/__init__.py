"""Does the run of a finding show the same when it is made once more, in processes, or with each change of the target?

One module a question: confirmation.py, close_ups.py. Imports what campaigns import, and their results.
"""
