"""How many threads a training uses: one where steps are small.

Threads of BLAS and torch wait for each other after every product of matrices. Where a product takes microseconds, the waiting
takes longer than the work, and on a machine with other work it takes many times longer: a fit of 300 items took 64 seconds
instead of 1.5. With one thread the result does not depend on the number of cores either.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from threadpoolctl import threadpool_limits

__all__ = ["threads_for"]

# Numbers that a step reads up to which one thread is as fast as two on an idle machine, or faster.
_SMALL = 2**18


@contextmanager
def threads_for(numbers: float) -> Iterator[None]:
    """Within it, BLAS and torch use one thread if a step reads at most so many numbers."""
    if numbers > _SMALL:
        yield
        return
    before = torch.get_num_threads()
    with threadpool_limits(1):
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)
