"""Before which outward calls of an external system is it killed, and which of them did a campaign strike?

`kill_inside_service` (inside_campaign.py) is the stage, `InsideCoverage` (inside_coverage.py) counts. May import:
generators, execution and everything below.
"""
