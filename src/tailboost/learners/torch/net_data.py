"""Rows for nets: from arrays of tables and images to tensors and module inputs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tailboost.core.array_types import Array, Table

# Largest fraction of a GPU's free memory for the rows. Larger tables are copied batch by batch.
SHARE_OF_DEVICE = 0.5


@dataclass(frozen=True)
class RowPreparation:
    """Preparation of rows for a module."""

    row_shape: tuple[int, ...]  # (d,) for a table, (H, W) or (H, W, C) for an image
    pixels: bool  # whether rows are images of uint8, which are divided by 255
    device: str  # "auto" or the name of a PyTorch device

    @classmethod
    def of(cls, X: Array, device: str) -> RowPreparation:
        """Return the preparation for rows of this shape and type."""
        row_shape = tuple(X.shape[1:])
        return cls(row_shape, len(row_shape) > 1 and X.dtype == np.uint8, device)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of a module input: (d,), or channels first."""
        if len(self.row_shape) == 1:
            return self.row_shape
        if len(self.row_shape) == 2:
            return (1, *self.row_shape)
        return (self.row_shape[-1], *self.row_shape[:-1])

    def transform(self, X: Table) -> Tensor:
        """Return rows as a tensor of uint8 or float32, on the device if there is enough memory.

        Raises
        ------
        ValueError
            If rows have another shape, values do not fit float32, or pixels are out of range.
        """
        X = np.asarray(X)
        if tuple(X.shape[1:]) != self.row_shape:
            raise ValueError(
                f"X has rows of shape {X.shape[1:]}, the net takes rows of shape "
                f"{self.row_shape}"
            )
        are_bytes = self.pixels and X.dtype == np.uint8
        if not are_bytes:
            with np.errstate(over="ignore"):  # refused below
                X = X.astype(np.float32, copy=False)
            low = X.min(initial=np.inf)  # also without rows
            high = X.max(initial=-np.inf)
            if X.size and not (np.isfinite(low) and np.isfinite(high)):
                raise ValueError("X contains NaN, infinity or a value too large for float32")
            if self.pixels and (low < 0 or high > 1):
                raise ValueError(
                    "the net was fitted on pixels of uint8; floats must lie in [0, 1], X "
                    f"contains {low:g} … {high:g}"
                )
        # PyTorch warns of read-only arrays, so they are copied. Warning filters are shared by all threads.
        table = torch.from_numpy(np.require(X, requirements=["C_CONTIGUOUS", "WRITEABLE"]))
        device = find_device(self.device)
        if device.type == "cuda":
            free_bytes, _ = torch.cuda.mem_get_info(device)
            if table.nbytes > SHARE_OF_DEVICE * free_bytes:
                return table
        return table.to(device)

    def batch(self, rows: Tensor, device: torch.device) -> Tensor:
        """Return rows of a transformed table as module inputs, float32."""
        x = rows.to(device, non_blocking=True)
        if x.dtype == torch.uint8:
            x = x.float().div_(255)
        if x.ndim == 2:  # rows of a table
            return x
        if x.ndim == 3:  # grey images get one channel
            return x.unsqueeze(1)
        return x.movedim(-1, 1)  # channels first


def find_device(name: str) -> torch.device:
    """Return the device of a name; "auto" is the GPU if there is one, else the CPU.

    Raises
    ------
    ValueError
        If PyTorch does not know the device, or the machine does not have it.
    """
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda", torch.cuda.current_device())
        return torch.device("cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"device={name!r} cannot be used here ({reason}); 'auto' takes an available device"
        ) from None
    return device
