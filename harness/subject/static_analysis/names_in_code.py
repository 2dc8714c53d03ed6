"""Which names stand in a sink's own code: of variables, attributes and modules.

Those of digests, for example: two of many rows have the same short one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from functools import cache
from pathlib import Path
from typing import Final

from sinkproof.chaos.points import line_point
from sinkproof.chaos.processes.host_identity import FILES

HOST: Final = frozenset(
    {
        *("gethostname", "getfqdn", "uname", "node", "getnode", "cpu_count", "sched_getaffinity"),
        *("monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"),
        *("fromtimestamp", "localtime", "strftime", "mktime", "ctime", "now", "today", "astimezone"),
    }
)
HOSTNAME: Final = "HOSTNAME"  # in the environment
TELLING_HOSTS: Final = (HOSTNAME, *FILES)
HTTP: Final = frozenset({"aiohttp", "boto3", "http", "HTTPConnection", "httpx", "requests", "urllib3", "urlopen"})
SEARCH: Final = frozenset({"elasticsearch", "opensearchpy"})
BATCHES_BY_WIRE: Final = ("_bulk", "BatchWriteItem", "PutRecords", "PutRecordBatch", "SendMessageBatch")  # in requests
BATCHES: Final = frozenset({"batch_write_item", "put_records", "put_record_batch", "send_message_batch"})  # of boto3
COMPUTED_IMPORTS: Final = (
    *("import_module", "__import__", "exec_module", "run_module", "run_path", "load_module", "iter_modules"),
    *("walk_packages", "entry_points", "load_entry_point"),
)
DIGESTS: Final = frozenset(
    {
        *("hash", "crc32", "crc_hqx", "adler32", "hexdigest", "digest", "hashlib", "uuid3", "uuid5"),
        *("md5", "sha", "sha1", "sha2", "sha224", "sha256", "sha512", "blake2b", "blake2s", "murmurhash", "murmur3"),
        *("xxhash", "xxhash64", "mmh3", "cityhash", "farmhash", "fnvhash", "siphash"),
    }
)
DIGESTS_IN_SQL: Final = re.compile(r"\b(?:hash|hashtext|xxhash64|crc32|md5|sha1?|sha2|sha256)\(", re.IGNORECASE)
IN_A_BYTE: Final = frozenset({"c_byte", "c_int8", "c_ubyte", "c_uint8", "int8", "uint8"})
GROWING: Final = re.compile(
    r"\b(?:pf|bf|cf)\.?m?add\b|\b[bc]f\(\)|bloom|cuckoo|hyperloglog"
    r"|\.[shz]?scan\(|['\"][shz]?scan\b|\blist_?objects|paginat|continuation_?token",
    re.IGNORECASE,
)
LOCKS: Final = frozenset({"flock", "lockf", "FileLock"})
STATUS: Final = frozenset({"code", "getcode", "ok", "status", "status_code"})  # of a reply of HTTP
RETRYING: Final = frozenset({"backoff", "retry", "retries", "retrying", "Retry", "Retrying", "tenacity"})
LISTING: Final = frozenset({"listdir", "scandir", "iterdir", "glob", "iglob", "rglob", "walk", "fwalk"})


def has_name(files: Collection[str], *names: str) -> bool:
    """Any of these."""
    return any(not _names_in(path).isdisjoint(names) for path in files)


def makes_digests(files: Collection[str]) -> bool:
    """In Python, or in SQL that stands in it."""
    in_sql = (DIGESTS_IN_SQL.search(Path(path).read_text(errors="replace")) for path in files)
    return has_name(files, *DIGESTS) or any(in_sql)


def keeps_what_grows_elsewhere(files: Collection[str]) -> bool:
    """In a set that is right with a probability only, or in one that is listed by pages."""
    return any(GROWING.search(Path(path).read_text(errors="replace")) for path in files)


def counts_in_bytes(files: Collection[str]) -> bool:
    """What counts in one begins anew at 128 or 256."""
    return has_name(files, *IN_A_BYTE)


def sends_in_bulk(files: Collection[str]) -> bool:
    """Whether the code names an API that takes many items in a request, and answers for each of them."""
    return has_name(files, *SEARCH, *BATCHES) or any(map(_names_batches, files))


def _names_batches(path: str) -> bool:
    text = Path(path).read_text(errors="replace")
    return any(name in text for name in BATCHES_BY_WIRE)


def sees_its_host(files: Collection[str]) -> bool:
    """Whether the code may come to know the host that it runs on: its name, its time zone, or its cores."""
    return has_name(files, *HOST) or any(map(_names_a_host, files))


def _names_a_host(path: str) -> bool:
    text = Path(path).read_text(errors="replace")
    return any(each in text for each in TELLING_HOSTS)


def tries_again(files: Collection[str]) -> bool:
    """Whether the code handles errors, or looks at the status of replies, within a loop, or names a library for it."""
    return has_name(files, *RETRYING) or any(map(_handles_errors_in_loops, files))


def executed_points(
    files: Mapping[str, str], executed: Set[str], *, lines_in: Callable[[bytes], Iterable[int]]
) -> list[str]:
    """Of what stands in such lines of the code. `files`: path -> name in points; `executed`: points."""
    points = (line_point(name, line) for path, name in files.items() for line in lines_in(Path(path).read_bytes()))
    return [point for point in points if point in executed]


@cache
def _handles_errors_in_loops(path: str) -> bool:
    loops = [node for node in ast.walk(_tree(path)) if isinstance(node, (ast.For, ast.While, ast.AsyncFor))]
    return any(_handles_an_error(node) for loop in loops for node in ast.walk(loop))


def _handles_an_error(node: ast.AST) -> bool:
    return isinstance(node, ast.ExceptHandler) or getattr(node, "attr", getattr(node, "id", None)) in STATUS


def _tree(path: str) -> ast.Module:
    return ast.parse(Path(path).read_bytes(), path)


@cache
def _names_in(path: str) -> frozenset[str]:
    nodes = list(ast.walk(_tree(path)))
    imported = (each.name for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom)) for each in node.names)
    called = (getattr(node, "id", getattr(node, "attr", "")) for node in nodes)
    return frozenset((*imported, *called))


def with_programs(files: Collection[str]) -> tuple[str, ...]:
    """These files, and programs in Python beside them that they name, as a server that `setup` starts."""
    return (*files, *_programs_named(tuple(files)))


@cache
def _programs_named(files: tuple[str, ...]) -> tuple[str, ...]:
    texts = "\n".join(Path(path).read_text(errors="replace") for path in files)
    beside = {str(each) for folder in {Path(path).parent for path in files} for each in folder.glob("*.py")}
    return tuple(sorted(path for path in beside.difference(files) if Path(path).name in texts and _is_code(path)))


def _is_code(path: str) -> bool:
    try:
        ast.parse(Path(path).read_bytes(), path)
    except (SyntaxError, ValueError):
        return False
    return True
