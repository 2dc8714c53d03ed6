"""Which libraries a fork server imports before its first attempt."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from sinkproof.subject.contract import Contract
from sinkproof.subject.source_files import files_of

HEAVY: Final = {"numpy": ["numpy"], "pandas": ["pandas"], "pyarrow": ["pyarrow", "pyarrow.parquet", "pandas"]}
IMPORTED: Final = re.compile(r"^\s*(?:import|from)\s+(\w+)", re.MULTILINE)


def libraries_of(contract: Contract) -> list[str]:
    """Libraries to import once for all attempts: those that the contract names, and heavy imports of its files.

    With its first rows pyarrow imports pandas, which would take a third of a second in each attempt.
    """
    named = contract.libraries
    for file in files_of(contract.given, None):
        imported = IMPORTED.findall(Path(file).read_text(errors="replace"))
        named += [name for heavy in imported for name in HEAVY.get(heavy, ())]
    return [name for name in dict.fromkeys(named) if find_spec(name.partition(".")[0])]
