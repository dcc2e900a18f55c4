"""Comparisons of many histories are spread over processes. One process is this one, which spares the start of another."""

import concurrent.futures
import contextlib
import multiprocessing
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def mapping(processes: int) -> Iterator[Callable[..., Iterator[Any]]]:
    """Yields a `map` over so many processes."""
    if processes == 1:
        yield map
        return
    with concurrent.futures.ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        yield pool.map
