"""Files by which programs tell hosts apart: its name, its number, and that of its last start."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from hashlib import md5
from typing import Any, Final
from uuid import UUID

from sinkproof.chaos.replaced_functions import replace_everywhere

NAMES: Final = ("/etc/hostname", "/proc/sys/kernel/hostname")
NUMBERS: Final = ("/etc/machine-id", "/var/lib/dbus/machine-id")
OF_THE_START: Final = "/proc/sys/kernel/random/boot_id"
FILES: Final = (*NAMES, *NUMBERS, OF_THE_START)


def show_host_in_files(name: str) -> None:
    """For the rest of this process, Python reads there what a host of that name says of itself."""
    digest = md5(name.encode(), usedforsecurity=False).hexdigest()
    texts = {**dict.fromkeys(NAMES, name), **dict.fromkeys(NUMBERS, digest), OF_THE_START: str(UUID(digest))}
    open_file, open_descriptor = io.open, os.open

    def file_opened(file: Any, *how: Any, **named: Any) -> Any:
        text = _text_of(file, texts)
        return open_file(file if text is None else _in_memory(text), *how, **named)

    def descriptor_opened(file: Any, *how: Any, **named: Any) -> int:
        text = _text_of(file, texts)
        return open_descriptor(file, *how, **named) if text is None else _in_memory(text)

    replace_everywhere("open", open_file, file_opened)
    replace_everywhere("open", open_descriptor, descriptor_opened)
    os.supports_dir_fd.add(descriptor_opened)


def _text_of(file: Any, texts: Mapping[str, str]) -> str | None:
    return texts.get(os.fsdecode(file)) if isinstance(file, (str, bytes, os.PathLike)) else None


def _in_memory(text: str) -> int:
    """A descriptor of its own for each reader."""
    descriptor = os.memfd_create("host")
    os.write(descriptor, f"{text}\n".encode())
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
