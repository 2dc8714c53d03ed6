"""Which faults strike a request that Python sends over TCP, and the reply to it?

socket_points.py makes each request a point, and raises or answers there; bulk_requests.py and bulk_requests_in_part.py
reject items of a bulk request; delayed_requests.py lets a request arrive after later ones. May import: chaos.lines.
"""
