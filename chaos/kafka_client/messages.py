"""The messages and mechanisms of kafka-python that are used here.

Importing it takes 0.2 s: import this module, and those that do, where they are used.
"""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    # It reads its schemas by a function of the standard library that Python 3.11 calls deprecated, and 3.13 does not: a
    # test session of a user that turns warnings into errors could not import it.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.net.sasl import get_sasl_mechanism
    from kafka.protocol.admin.transactions import (
        DescribeProducersRequest,
        DescribeTransactionsRequest,
        ListTransactionsRequest,
    )
    from kafka.protocol.consumer import ListOffsetsRequest
    from kafka.protocol.metadata import ApiVersionsRequest, FindCoordinatorRequest, MetadataRequest
    from kafka.protocol.producer import EndTxnRequest, InitProducerIdRequest
    from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

__all__ = [
    "ApiVersionsRequest",
    "DescribeProducersRequest",
    "DescribeTransactionsRequest",
    "EndTxnRequest",
    "FindCoordinatorRequest",
    "InitProducerIdRequest",
    "ListOffsetsRequest",
    "ListTransactionsRequest",
    "MetadataRequest",
    "SaslAuthenticateRequest",
    "SaslHandshakeRequest",
    "get_sasl_mechanism",
]
