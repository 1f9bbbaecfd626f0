"""A thread that lasts as long as this process, to start children from.

The kernel sends a child its death signal when the *thread* that started it ends. The main thread ends with
the process; any other may end earlier, and would take the server with it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")

# By process: a forked copy of this one has the queue but not the thread.
_queues: dict[int, SimpleQueue[tuple[Future[Any], Callable[[], Any]]]] = {}
_lock = threading.Lock()


def call(function: Callable[[], T]) -> T:
    """Call `function` from a thread that lasts, and return its result or raise what it raises."""
    if threading.current_thread() is threading.main_thread():
        return function()
    future: Future[T] = Future()
    _queue().put((future, function))
    return future.result()


def _queue() -> SimpleQueue[tuple[Future[Any], Callable[[], Any]]]:
    with _lock:
        if os.getpid() not in _queues:
            queue: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()
            threading.Thread(target=_work, args=(queue,), name="ngram-lasting", daemon=True).start()
            _queues[os.getpid()] = queue
        return _queues[os.getpid()]


def _work(queue: SimpleQueue[tuple[Future[Any], Callable[[], Any]]]) -> None:
    while True:
        future, function = queue.get()
        try:
            future.set_result(function())
        except BaseException as error:  # whoever asked gets it
            future.set_exception(error)
