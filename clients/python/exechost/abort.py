"""Ending calls from another thread."""
import threading
import time
from typing import Callable, List, Optional, TypeVar

from .errors import ExecutionHostError

T = TypeVar("T")
MISSING = {"COMMAND_NOT_FOUND", "EXECUTION_NOT_FOUND", "PTC_RUN_NOT_FOUND"}


class Aborted(Exception):
    """A call was aborted that has no result then."""


class Abort:
    """Given to calls, and told once to end them. Any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: List[Callable[[], None]] = []
        self._event = threading.Event()
        self.reason = "aborted"

    @property
    def aborted(self) -> bool:
        return self._event.is_set()

    def abort(self, reason: str = "aborted") -> None:
        with self._lock:
            if self._event.is_set():
                return
            self.reason = reason
            self._event.set()
            listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener()

    def raise_if_aborted(self) -> None:
        if self.aborted:
            raise Aborted(self.reason)

    def _add(self, listener: Callable[[], None]) -> None:
        with self._lock:
            if not self._event.is_set():
                self._listeners.append(listener)
                return
        listener()

    def _remove(self, listener: Callable[[], None]) -> None:
        with self._lock:
            if listener in self._listeners:
                self._listeners.remove(listener)


class AbortListener:
    """Within its `with`, an abort becomes a call of `action` on a thread of its own, again and again
    until it is told of something that is there: the request that makes it may still be on its way.
    What is aborted ends by itself, with what became of it."""

    def __init__(self, abort: Optional[Abort], action: Callable[[], None]) -> None:
        self._abort = abort
        self._action = action
        self._settled = threading.Event()
        self._thread: Optional[threading.Thread] = None
        self._failure: Optional[BaseException] = None

    def __enter__(self) -> "AbortListener":
        if self._abort:
            self._abort.raise_if_aborted()
            self._abort._add(self._start)
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._settled.set()
        if self._abort:
            self._abort._remove(self._start)
        if self._thread:
            self._thread.join()
        if self._failure:
            raise self._failure

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._settled.is_set():
            try:
                self._action()
                return
            except ExecutionHostError as error:
                if error.code not in MISSING:
                    self._failure = error
                    return
            except BaseException as error:  # raised where the call was made
                self._failure = error
                return
            time.sleep(0.05)


def or_undo(abort: Optional[Abort], undo: Callable[[], None], at_once: bool,
            work: Callable[[], T]) -> T:
    """Work that has no result once it is aborted: undone at once, where that can be, and again where
    it had come to its end nevertheless; then Aborted."""
    if abort is None:
        return work()

    def quietly() -> None:
        try:
            undo()
        except ExecutionHostError:
            pass  # the second time tells

    threads: List[threading.Thread] = []

    def start() -> None:
        if at_once:
            threads.append(threading.Thread(target=quietly, daemon=True))
            threads[0].start()

    abort.raise_if_aborted()
    abort._add(start)
    try:
        result = work()
        if not abort.aborted:
            return result
    except ExecutionHostError:
        if not abort.aborted:
            raise
    finally:
        abort._remove(start)
    for thread in threads:
        thread.join()
    undo()
    raise Aborted(abort.reason)
