"""How do the strategies compare on each target?

`table` (table_document.py) makes the document of `sinkproof table`: for every pair, what is expected
(expected_and_empty_cells.py) beside what was measured (measurements.py).
May import: execution and everything below.
"""
