"""Compiled work on several threads; the kernels release the global interpreter lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

from polydag.errors import UsageError

T = TypeVar("T")


def jobs(n_jobs: int) -> int:
    """The number of threads or processes that `n_jobs` stands for."""
    if n_jobs == -1:
        return os.cpu_count() or 1
    if n_jobs < 1:
        raise UsageError(f"n_jobs must be positive, or -1 for all processors; got {n_jobs}.")
    return n_jobs


def run(work: Callable[[T], None], tasks: Sequence[T], threads: int) -> Iterator[T]:
    """Run the tasks in any order; yields each task when it is done."""
    if threads == 1 or len(tasks) == 1:
        for task in tasks:
            work(task)
            yield task
        return
    with ThreadPoolExecutor(threads) as pool:
        waiting: dict[Future[None], T] = {pool.submit(work, task): task for task in tasks}
        while waiting:
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                future.result()
                yield waiting.pop(future)
