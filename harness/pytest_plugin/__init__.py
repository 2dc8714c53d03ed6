"""How does a certification run in pytest?

`certification(Contract)` (classes.py) makes a test class with one test per claim and protocol step; plugin.py registers
the marker. Every pytest run loads plugin.py, so it imports nothing.
May import: certifier and everything below.
"""
