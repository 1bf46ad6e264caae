"""A training step that is recorded once as a CUDA graph and then replayed whole."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from torch import Tensor

# (rows, labels) -> the loss, without its autograd graph.
Step = Callable[[Tensor, Tensor], Tensor]
# A step on tensors that stay where they are, to what repeats it; recording takes no step.
Record = Callable[[Callable[[], Tensor]], Callable[[], Tensor]]

# Steps before the recording: libraries choose kernels and memory in them, the optimiser makes its state.
WARM_UP = 3


def as_cuda_graph(step: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """Record a step as a CUDA graph; of random numbers it may draw those of PyTorch's own generators."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()

    def replay() -> Tensor:
        graph.replay()
        return loss

    return replay


class RecordedStep:
    """A step whose batches are copied to one place, so that it can be recorded there and replayed.

    The first steps are taken as they are, on a stream of their own, as a recording asks for. Where a step
    cannot be recorded, because it waits for the device or decides by values there, a warning says so once,
    and all steps are taken as they are.

    Parameters
    ----------
    step : callable
        (rows, labels) -> loss.
    record : callable
        (step on tensors that stay where they are) -> what repeats it.
    device : torch.device
        Of the step.
    """

    def __init__(self, step: Step, record: Record, device: torch.device) -> None:
        self.step, self.record, self.device = step, record, device
        self.place: tuple[Tensor, Tensor] | None = None
        self.replay: Callable[[], Tensor] | None = None
        self.before = WARM_UP
        self.possible = True

    def __call__(self, rows: Tensor, y: Tensor) -> Tensor:
        """Take the step on a minibatch and return its loss, which the next call overwrites."""
        if not self.possible:
            return self.step(rows, y)
        if self.place is None:
            self.place = torch.empty_like(rows, device=self.device), torch.empty_like(y, device=self.device)
        for own, given in zip(self.place, (rows, y), strict=True):
            own.copy_(given, non_blocking=True)
        if self.before:
            self.before -= 1
            return self._aside(*self.place)
        if self.replay is None and not self._recorded(*self.place):
            return self.step(rows, y)
        assert self.replay is not None
        return self.replay()

    def forget(self) -> None:
        """Drop the recording: numbers that are part of it changed, as the step size does."""
        self.replay = None

    def _aside(self, rows: Tensor, y: Tensor) -> Tensor:
        if self.device.type != "cuda":
            return self.step(rows, y)
        here = torch.cuda.current_stream(self.device)
        # PyTorch gives its streams no types.
        aside = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        aside.wait_stream(here)
        with torch.cuda.stream(aside):
            loss = self.step(rows, y)
        here.wait_stream(aside)
        return loss

    def _recorded(self, rows: Tensor, y: Tensor) -> bool:
        try:
            self.replay = self.record(lambda: self.step(rows, y))
        except RuntimeError as error:
            self.possible = False
            reason = str(error).splitlines()[0]
            warnings.warn(
                f"cuda_graph=True: this training step cannot be recorded ({reason}); its kernels are "
                "launched one at a time",
                RuntimeWarning,
                stacklevel=2,
            )
        return self.possible
