"""The few operations of an object store that checkpoints need, by obstore: on S3, Google Cloud and Azure.

Errors of the store become OSErrors, which say what it answered. None of them says whether the request was carried out.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from importlib import import_module
from typing import Any, Final, Protocol, TypeVar

from sinkproof.reference_engine.checkpointing.checkpoint_configuration import ConfigurationError

RETRIES: Final = {
    # The coordinator waits for its decision, and meanwhile answers no supervisor. The default is 10 retries, for 180 s.
    "max_retries": 3,
    "retry_timeout": timedelta(seconds=20),
}
Result = TypeVar("Result")


class UnfitStore(ConfigurationError):
    """The store does not keep what fencing rests on: of two creations of one object, exactly one succeeds."""


class ObjectStore(Protocol):
    """Names are relative to the URL, with slashes."""

    url: str

    def create(self, name: str, data: bytes) -> bool:
        """Whole, durable, and only if there is none; False if there is one. After an OSError that is not known."""

    def put(self, name: str, data: bytes) -> None:
        """Creates or replaces."""

    def read(self, name: str) -> bytes:
        """FileNotFoundError, an OSError, if there is none."""

    def exists(self, name: str) -> bool: ...

    def list(self, folder: str) -> tuple[Sequence[str], Sequence[str]]:
        """The folders and the objects directly in it, without its name; "" is the root."""

    def delete(self, names: Sequence[str]) -> None:
        """Of those that are there."""


class ObstoreObjects:
    """An ObjectStore. Its threads do not survive a fork: open one in each process, after it has forked."""

    def __init__(self, store: Any, url: str) -> None:
        self.url = url
        self._store, self._errors = store, import_module("obstore.exceptions")

    def create(self, name: str, data: bytes) -> bool:
        try:
            self._ask(lambda: self._store.put(name, data, mode="create", use_multipart=False))
        except FileExistsError:
            return False
        return True

    def put(self, name: str, data: bytes) -> None:
        self._ask(lambda: self._store.put(name, data))

    def read(self, name: str) -> bytes:
        return self._ask(lambda: bytes(self._store.get(name).bytes()))

    def exists(self, name: str) -> bool:
        try:
            self._ask(lambda: self._store.head(name))
        except FileNotFoundError:
            return False
        return True

    def list(self, folder: str) -> tuple[Sequence[str], Sequence[str]]:
        found = self._ask(lambda: self._store.list_with_delimiter(folder or None))
        paths = (found["common_prefixes"], [each["path"] for each in found["objects"]])
        folders, objects = ([path.rstrip("/").rsplit("/", 1)[-1] for path in each] for each in paths)
        return sorted(folders), sorted(objects)

    def delete(self, names: Sequence[str]) -> None:
        """One request for all, where the store has such."""
        if not names:
            return
        try:
            self._ask(lambda: self._store.delete([*names]))
        except FileNotFoundError:  # a folder says so, and leaves the rest; S3 does not
            for name in names if len(names) > 1 else ():
                self.delete([name])

    def _ask(self, request: Callable[[], Result]) -> Result:
        try:
            return request()
        except (NotImplementedError, self._errors.NotSupportedError) as error:
            raise UnfitStore(
                f"{self.url} cannot do what checkpoints need: {_text(error)}. Name another store"
            ) from error
        except self._errors.AlreadyExistsError as error:
            raise FileExistsError(errno.EEXIST, "it is there already", self.url) from error
        except FileNotFoundError as error:
            raise FileNotFoundError(errno.ENOENT, "it is not there", self.url) from error
        except self._errors.BaseError as error:
            raise OSError(errno.EIO, _text(error), self.url) from error


def _text(error: Exception) -> str:
    """What it says to a person, without the query of a URL: that of Azure may hold a signature."""
    said = " ".join(str(error).partition("Debug source:")[0].split()).rstrip(".")
    return re.sub(r"\?[^\s\"']+", "", said)[:300]


def open_objects(url: str) -> ObstoreObjects:
    """Raises ImportError without obstore, and ConfigurationError for a URL of no kind that it knows."""
    stores: Any = import_module("obstore.store")
    errors: Any = import_module("obstore.exceptions")
    scheme = url.partition(":")[0]
    in_folder = {"mkdir": True, "automatic_cleanup": True}
    options: dict[str, Any] = in_folder if scheme == "file" else {"retry_config": RETRIES}
    try:
        return ObstoreObjects(stores.from_url(url, **options), url)
    except (ValueError, errors.BaseError) as error:
        raise ConfigurationError(
            f"{url} cannot be opened ({_text(error)}): write s3://BUCKET/FOLDER, gs://BUCKET/FOLDER, "
            "az://ACCOUNT/CONTAINER/FOLDER or a folder, and set what the store needs to let you in (AWS_REGION, "
            "AWS_ACCESS_KEY_ID, ...)"
        ) from error
