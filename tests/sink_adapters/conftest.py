"""Targets for sinks that tests drive call by call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sinkproof.sink_adapters.files.disk_memory import MemoryDisk
from sinkproof.sink_adapters.files.disk_real import RealDisk
from sinkproof.sink_adapters.memory.memory_store import MemoryStore


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture(params=[RealDisk, MemoryDisk])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return MemoryDisk() if request.param is MemoryDisk else RealDisk(tmp_path)
