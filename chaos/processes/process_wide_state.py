"""Keeps apart what a subject's code changes of its whole process, and what sinkproof needs there.

Working directory, environment, signals, umask, limits, streams, `sys.path`, replaced functions of the standard library:
a subject may change any of them, and may rely on the change in a later call. So `subjects_state()` brings back what the
subject has left, and leaves everything else as it was before.
"""

from __future__ import annotations

import atexit
import builtins
import faulthandler
import fcntl
import gc
import json
import locale
import os
import pickle
import posixpath
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from operator import itemgetter
from types import ModuleType
from typing import Any, ClassVar, Final
from weakref import finalize

from sinkproof.chaos.processes.interval_timer import set_timer, timer
from sinkproof.chaos.standard_library import is_standard_module

SIGNALS: Final = ("SIGHUP", "SIGINT", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGPIPE", "SIGALRM", "SIGTERM", "SIGCHLD")
LIMITS: Final = ("RLIMIT_NOFILE", "RLIMIT_FSIZE", "RLIMIT_NPROC", "RLIMIT_AS")
STREAMS: Final = ("stdin", "stdout", "stderr")
HOOKS: Final = ("excepthook", "unraisablehook", "displayhook")
LISTS: Final = ("path", "meta_path", "path_hooks")
MODULES: Final = (
    atexit,
    builtins,
    json,
    os,
    pickle,
    posixpath,
    select,
    shutil,
    signal,
    socket,
    subprocess,
    tempfile,
    time,
)
CLOSED: Final = -1, -1
in_c: Final = import_module("_signal")  # enumerations take 5 us a call, and copy 50 pages in a forked process
Replaced = Mapping[tuple[int, str], Any]  # (module, by its index in MODULES, and name) -> function
Aspect = tuple[Callable[[], Any], Callable[[Any], object]]  # reads it; sets it


def _folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return ""


def _set_folder(path: str) -> None:
    with suppress(OSError):
        os.chdir(path)


def _variables() -> dict[bytes, bytes]:
    return dict(os.environ._data)  # type: ignore[attr-defined]  # a copy of the mapping itself takes 30 us


def _set_variables(values: Mapping[bytes, bytes]) -> None:
    for name in _variables().keys() - values.keys():
        del os.environb[name]
    os.environb.update(values)


def umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _set_signal(number: int, handler: Any) -> None:
    with suppress(TypeError, ValueError):  # a handler that is not of Python; another thread than the first
        in_c.signal(number, handler)


def _set_limit(which: int, limits: tuple[int, int]) -> None:
    try:
        resource.setrlimit(which, limits)
    except ValueError:  # the hard limit was lowered, which cannot be undone
        hard = resource.getrlimit(which)[1]
        resource.setrlimit(which, (hard, hard))


def _set_locale(name: str) -> None:
    with suppress(locale.Error):
        locale.setlocale(locale.LC_ALL, name)


def _list(name: str) -> tuple[list[Any], list[Any]]:
    given = getattr(sys, name)
    return given, list(given)


def is_list(value: Any) -> bool:
    """Whether it was read by `_list`."""
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], list)


def _set_list(name: str, value: tuple[list[Any], list[Any]]) -> None:
    given, contents = value
    given[:] = contents
    setattr(sys, name, given)


def _set_filters(filters: list[Any]) -> None:
    warnings.resetwarnings()
    warnings.filters.extend(filters)  # type: ignore[attr-defined]  # a list, which the stubs call a sequence


def _functions(module: ModuleType) -> tuple[dict[str, Any], list[str], tuple[Any, ...]]:
    named = {name: value for name, value in vars(module).items() if callable(value) and not name.startswith("_")}
    return vars(module), [*named], (*named.values(),)


ORIGINAL: Final = [_functions(module) for module in MODULES]
GETTERS: Final = [itemgetter(*names) for _, names, _ in ORIGINAL]  # twice as fast as a loop


def _is_original(place: int) -> bool:
    there, _, originals = ORIGINAL[place]
    try:
        return bool(GETTERS[place](there) == originals)
    except KeyError:  # one was removed
        return False


def _replaced() -> Replaced:
    """Functions that are not the original ones."""
    return {
        (place, name): there.get(name)
        for place, (there, names, originals) in enumerate(ORIGINAL)
        if not _is_original(place)
        for name, original in zip(names, originals, strict=True)
        if there.get(name) is not original
    }


def _replace(replaced: Replaced, *, now: Replaced | None = None) -> None:
    """`now`: what is replaced so far, where that is known."""
    for place, name in _replaced() if now is None else now:
        there, names, originals = ORIGINAL[place]
        there[name] = originals[names.index(name)]
    for (place, name), value in replaced.items():
        ORIGINAL[place][0][name] = value


def _aspects() -> Iterator[Aspect]:
    """In the order in which they are set back: functions first, because all others use them; a timer before the handler
    of its signal.
    """
    yield _replaced, _replace
    yield timer, set_timer
    for number in (getattr(signal, name) for name in SIGNALS):
        yield partial(in_c.getsignal, number), partial(_set_signal, number)
    yield partial(in_c.pthread_sigmask, signal.SIG_BLOCK, ()), partial(in_c.pthread_sigmask, signal.SIG_SETMASK)
    for which in (getattr(resource, name) for name in LIMITS):
        yield partial(resource.getrlimit, which), partial(_set_limit, which)
    yield _folder, _set_folder
    yield _variables, _set_variables
    yield umask, os.umask
    for name in LISTS:
        yield partial(_list, name), partial(_set_list, name)
    for name in (*STREAMS, *HOOKS):
        yield partial(getattr, sys, name, None), partial(setattr, sys, name)
    yield sys.getrecursionlimit, sys.setrecursionlimit
    yield sys.gettrace, sys.settrace
    yield sys.getprofile, sys.setprofile
    yield threading.gettrace, threading.settrace
    yield threading.getprofile, threading.setprofile
    yield gc.isenabled, lambda enabled: gc.enable() if enabled else gc.disable()
    yield partial(locale.setlocale, locale.LC_ALL), _set_locale
    yield socket.getdefaulttimeout, socket.setdefaulttimeout
    yield lambda: list(warnings.filters), _set_filters


ASPECTS: Final = tuple(_aspects())


_register: Final = atexit.register
_unregister: Final = atexit.unregister


def _register_at_exit(function: Any, *arguments: Any, **named: Any) -> Any:
    """What a subject registers runs when an attempt in a process of its own ends in an orderly way (`end_orderly`), and
    not in this process: its exit status is a verdict.
    """
    if is_standard_module(str(getattr(function, "__module__", ""))):
        _register(function, *arguments, **named)
    _Subject.at_exit.append((function, partial(function, *arguments, **named)))
    return function


def _unregister_at_exit(function: Any) -> None:
    _unregister(function)
    _Subject.at_exit[:] = [each for each in _Subject.at_exit if each[0] != function]


def end_now_if_functions_are_left(status: int) -> None:
    """What libraries of the subject have registered for the end does not run here. Without it the interpreter may crash
    as it takes them apart, and the exit status would be a signal's: this process ends before that.
    """
    if not _Subject.at_exit:
        return
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


def spare_inherited_finalizers() -> None:
    """At the end of this process only objects that were made in it are finalized."""
    for each in list(finalize._registry):  # type: ignore[attr-defined]
        each.atexit = False


def end_as_the_interpreter() -> None:
    """As `end_orderly`, when threads that are no daemons have ended: executors finish what they were given."""
    try:
        threading._shutdown()  # type: ignore[attr-defined]
    except BaseException:
        traceback.print_exc()
    end_orderly()


def end_orderly() -> None:
    """Does what the interpreter does at the end of a process, for the code of the subject alone."""
    gc.collect()
    finalizers = [] if not finalize._registry else [finalize._exitfunc]  # type: ignore[attr-defined]
    for function in (*(call for _, call in reversed(_Subject.at_exit)), *finalizers):
        try:
            function()
        except BaseException:  # as the interpreter does it
            traceback.print_exc()
    _Subject.at_exit.clear()


class _Subject:
    """What the subject has left in this process."""

    depth = 0  # of calls to it
    left: ClassVar[dict[int, Any]] = {  # index in ASPECTS -> value, where it is not ours
        0: {
            (MODULES.index(atexit), "register"): _register_at_exit,
            (MODULES.index(atexit), "unregister"): _unregister_at_exit,
        }
    }
    at_exit: ClassVar[list[tuple[Any, Callable[[], object]]]] = []  # what it has registered, and the call of that
    lists_then: ClassVar[dict[int, Any]] = {}  # index in ASPECTS -> what we had when it left another list there
    descriptors: ClassVar[list[int]] = []  # copies of 0, 1 and 2
    replaced_at_fork: ClassVar[Replaced | None] = None  # functions; None: not noted


@contextmanager
def subjects_state() -> Iterator[None]:
    """Code of the subject runs inside the block, in the first thread; blocks may be nested."""
    if _Subject.depth or threading.current_thread() is not threading.main_thread():
        yield
        return
    ours = [read() for read, _ in ASPECTS]
    if not _Subject.descriptors:
        _Subject.descriptors += [fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 3) for number in range(3)]
        for name in STREAMS[1:]:
            setattr(sys, name, os.fdopen(2, "w", buffering=1, closefd=False))
    stay_in_subjects_state(replaced=ours[0])
    try:
        yield
    finally:
        _Subject.depth = 0
        _set_back(ours)


def note_before_forks() -> None:
    """For a process that runs none but its own code from now on, and forks processes of subjects. In each of them, to
    look at all functions would copy 240 pages of memory: a tenth of the time that a short one takes.
    """
    _Subject.replaced_at_fork = _replaced()


def stay_in_subjects_state(*, replaced: Replaced | None = None) -> None:
    """For a process that is the subject's from now on. `replaced`: functions that are replaced now; None: as noted
    before it was forked.
    """
    for place, ours in list(_Subject.lists_then.items()):
        if ASPECTS[place][0]() != ours:  # changed since: by the caller of several subjects, for the next one
            del _Subject.left[place], _Subject.lists_then[place]
    for place, value in sorted(_Subject.left.items(), reverse=True):
        if place == 0:
            _replace(value, now=_Subject.replaced_at_fork if replaced is None else replaced)
        else:
            ASPECTS[place][1](value)
    _Subject.depth = 1


def _set_back(ours: Sequence[Any]) -> None:
    faulthandler.cancel_dump_traceback_later()
    for place, ((read, set_to), before) in enumerate(zip(ASPECTS, ours, strict=True)):
        after = read()
        if after == before:
            _Subject.left.pop(place, None)
            _Subject.lists_then.pop(place, None)
        else:
            _Subject.left[place] = after
            if is_list(before):
                _Subject.lists_then[place] = before
            if place == 0:
                _replace(before, now=after)  # it need not look a third time
            else:
                set_to(before)
    for number, kept in enumerate(_Subject.descriptors):
        if _identity(kept) not in (_identity(number), CLOSED):
            os.dup2(kept, number)


def _identity(descriptor: int) -> tuple[int, int]:
    try:
        found = os.fstat(descriptor)
    except OSError:
        return CLOSED
    return found.st_dev, found.st_ino
