"""Which schedules are worth a run?

Each module yields `Schedule` values from a baseline run: fault_sites.py says where a fault can strike, high_yield.py,
rare.py, interleavings.py and service_faults.py which faults to try there, feasible.py what a shell can inject at all.
May import: execution and everything below; never a campaign.
"""
