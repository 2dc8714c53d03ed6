"""What hosts of a cluster may lack, and which address a host has towards another one."""

from __future__ import annotations

import pytest

from sinkproof.reference_engine.shells.spark.host_addresses import master_address, on_one_host, own_address
from sinkproof.reference_engine.shells.spark.host_survey import Seen, judge

OURS = "1.2.3"
GOOD = Seen("one", OURS, read=True, wrote=True)


@pytest.mark.parametrize(
    ("second", "arrived", "why"),
    [
        (GOOD._replace(host="two"), {"s-0", "s-1"}, ""),
        (Seen("two", "1.2.2", read=True, wrote=True), {"s-0", "s-1"}, "two has sinkproof 1.2.2, and this host 1.2.3"),
        (Seen("two", OURS, read=False, wrote=False), {"s-0"}, "/shared is not shared with two"),
        (Seen("two", OURS, read=True, wrote=False), {"s-0"}, "/shared is not shared with two"),
        (Seen("two", OURS, read=True, wrote=True), {"s-0"}, "/shared is not shared with two"),
    ],
    ids=["fit", "another version", "sees nothing", "may not write", "writes elsewhere"],
)
def test_a_host_that_lacks_something_is_named(second: Seen, arrived: set[str], why: str) -> None:
    found = judge((GOOD, second), folder="/shared", ours=OURS, arrived=arrived, name="s")
    assert found.startswith(why)
    assert bool(found) == bool(why)


@pytest.mark.parametrize(
    ("master", "address"),
    [
        ("spark://host.example:7077", ("host.example", 7077)),
        ("spark://one:7077,two:7078", ("one", 7077)),
        ("spark://[::1]:7077", ("::1", 7077)),
        ("yarn", None),
        ("k8s://https://host:443", None),
    ],
)
def test_the_address_of_a_standalone_master_is_known(master: str, address: tuple[str, int] | None) -> None:
    assert address == master_address(master)
    assert not on_one_host(master)


@pytest.mark.parametrize("master", ["local[4]", "local[4,100]", "local-cluster[2,2,1024]"])
def test_local_masters_are_on_one_host(master: str) -> None:
    assert on_one_host(master)


def test_the_own_address_is_that_on_the_way_to_the_other_host() -> None:
    assert "127.0.0.1" == own_address(("127.0.0.1", 9))
