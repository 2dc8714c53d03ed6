"""How do the strategies compare on each target?

`table` (table_document.py) makes the document of `sinkproof table`: for every pair, what is expected (expectations.py)
beside what was measured (measurements.py).
May import: execution and everything below.
"""
