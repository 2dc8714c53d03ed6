"""The network between the sink and the external system fails, in one way and one direction (toxics.py).

Heals by itself. A lost request was never carried out; a lost reply belongs to a request that was; a delayed message
arrives after its client has timed out.
"""

from sinkproof.chaos.faults.fault_kind import service_outage
from sinkproof.chaos.faults.toxics import TOXICS

NETWORK = tuple(
    service_outage(word, f"{toxic.sentence}, from here on for a while", how=word) for word, toxic in TOXICS.items()
)
