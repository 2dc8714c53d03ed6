"""Object stores for tests: a real S3 protocol server in this process, stores that are wrong on purpose, a slow one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from threading import Lock, Thread
from typing import Any, Final
from urllib.request import Request, urlopen

import obstore.store

from sinkproof.reference_engine.checkpointing.object_store import ObjectStore, ObstoreObjects

CREDENTIALS: Final = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}
CONDITION: Final = "HTTP_IF_NONE_MATCH"  # the header, as an application is handed it


def in_memory() -> ObstoreObjects:
    """It lasts as long as this value; several storages may share it."""
    return ObstoreObjects(obstore.store.MemoryStore(), "memory:///")


class S3Server:
    """moto: the protocol over HTTP. `ignores_conditions`: as servers and gateways of some years ago.

    moto looks whether there is an object and writes it then: of creations at once, several may succeed. A store does
    this in one step, and so does moto that answers one request at a time.
    """

    def __init__(self, *, ignores_conditions: bool = False) -> None:
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
        from werkzeug.serving import WSGIRequestHandler, make_server

        class Silent(WSGIRequestHandler):
            def log(self, type: str, message: str, *args: Any) -> None: ...

        self.ignores_conditions = ignores_conditions
        self._application = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True, request_handler=Silent)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        self._one_at_a_time = Lock()
        Thread(target=self._server.serve_forever, daemon=True).start()

    def _answer(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if self.ignores_conditions:
            environ.pop(CONDITION, None)
        environ["wsgi.input"] = BytesIO(environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)))
        with self._one_at_a_time:
            return list(self._application(environ, start_response))

    @property
    def environment(self) -> dict[str, str]:
        return CREDENTIALS | {"AWS_ENDPOINT_URL": self.endpoint, "AWS_ALLOW_HTTP": "true"}

    def make_bucket(self, name: str) -> str:
        """Its URL."""
        with urlopen(Request(f"{self.endpoint}/{name}", method="PUT")) as answer:
            assert 200 == answer.status
        return f"s3://{name}/checkpoints"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def s3_server(**options: bool) -> Iterator[S3Server]:
    server = S3Server(**options)
    try:
        yield server
    finally:
        server.close()


class Objects:
    """An ObjectStore that is another one; what is wrong or slow with it, subclasses say."""

    def __init__(self, objects: ObjectStore) -> None:
        self.objects, self.url = objects, objects.url

    def create(self, name: str, data: bytes) -> bool:
        return self.objects.create(name, data)

    def put(self, name: str, data: bytes) -> None:
        self.objects.put(name, data)

    def read(self, name: str) -> bytes:
        return self.objects.read(name)

    def exists(self, name: str) -> bool:
        return self.objects.exists(name)

    def list(self, folder: str) -> tuple[Sequence[str], Sequence[str]]:
        return self.objects.list(folder)

    def delete(self, names: Sequence[str]) -> None:
        self.objects.delete(names)


class Overwriting(Objects):
    """The driver drops the condition."""

    def create(self, name: str, data: bytes) -> bool:
        self.objects.put(name, data)
        return True


class CreatingNothing(Objects):
    """Says that everything is there already."""

    def create(self, name: str, data: bytes) -> bool:
        return self.objects.exists(name) and False


class LookingFirst(Objects):
    """Looks, and writes then: another writer fits in between."""

    def __init__(self, objects: ObjectStore, *, between: Callable[[], Any]) -> None:
        super().__init__(objects)
        self.between = between

    def create(self, name: str, data: bytes) -> bool:
        if self.objects.exists(name):
            return False
        self.between()
        self.objects.put(name, data)
        return True


class LastWins(Objects):
    """Answers rightly, and keeps what the loser sent."""

    def create(self, name: str, data: bytes) -> bool:
        is_created = not self.objects.exists(name)
        self.objects.put(name, data)
        return is_created


class Stepped(Objects):
    """Calls `reach` before each request."""

    def __init__(self, objects: ObjectStore, reach: Callable[[str], Any]) -> None:
        super().__init__(objects)
        self.reach = reach

    def create(self, name: str, data: bytes) -> bool:
        self.reach(f"create {name}")
        return super().create(name, data)

    def put(self, name: str, data: bytes) -> None:
        self.reach(f"put {name}")
        super().put(name, data)

    def read(self, name: str) -> bytes:
        self.reach(f"read {name}")
        return super().read(name)

    def exists(self, name: str) -> bool:
        self.reach(f"exists {name}")
        return super().exists(name)

    def list(self, folder: str) -> tuple[Sequence[str], Sequence[str]]:
        self.reach(f"list {folder}")
        return super().list(folder)

    def delete(self, names: Sequence[str]) -> None:
        self.reach(f"delete {names}")
        super().delete(names)


class Failing(Objects):
    """The next creations end as told: each is a function of the creation, or None for one that goes well."""

    def __init__(self, objects: ObjectStore, *endings: Callable[[Callable[[], bool]], bool] | None) -> None:
        super().__init__(objects)
        self.endings = list(endings)
        self.late: list[Callable[[], bool]] = []  # creations that are still on their way

    def create(self, name: str, data: bytes) -> bool:
        ending = self.endings.pop(0) if self.endings else None
        deed = lambda: super(Failing, self).create(name, data)  # noqa: E731
        return ending(deed) if ending is not None else deed()

    def is_late(self, deed: Callable[[], bool]) -> bool:
        self.late.append(deed)
        raise TimeoutError("no answer")


def reply_lost(deed: Callable[[], bool]) -> bool:
    deed()
    raise TimeoutError("no answer")


def sent_twice(deed: Callable[[], bool]) -> bool:
    """The driver tries again by itself, and finds what its first try has written."""
    deed()
    return deed()


def no_answer(deed: Callable[[], bool]) -> bool:
    raise TimeoutError("no answer")


class Unreadable(Failing):
    """Objects with such a name cannot be read: the store does not answer."""

    def __init__(self, objects: ObjectStore, name: str, *endings: Any) -> None:
        super().__init__(objects, *endings)
        self.name = name

    def read(self, name: str) -> bytes:
        if self.name in name:
            raise TimeoutError("no answer")
        return super().read(name)
