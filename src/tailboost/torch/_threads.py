"""How many of the processor's threads a net is worth."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

# Where a layer's weights times the rows of a batch are fewer than this, a thread per core costs more than it
# brings: threads spin while they wait for each other after every operation. Beside busy processes the default
# fit of a net of 11,000 weights on 2,000 rows took 42 to 64 s with two threads and 1.0 to 1.4 s with one.
WORK_FOR_THREADS = 50_000_000


@contextmanager
def threads_for(net: nn.Module, rows: Tensor, batch_size: int) -> Iterator[None]:
    """Have small nets on rows of a table work in one thread of the processor, and leave other nets alone."""
    weights = sum(p.numel() for p in net.parameters())
    before = torch.get_num_threads()
    if rows.ndim > 2 or before == 1 or weights * min(batch_size, len(rows)) >= WORK_FOR_THREADS:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
