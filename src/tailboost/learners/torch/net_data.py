"""Rows for nets: tables and images as arrays, as tensors, and as a module's input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

# Share of a GPU's free memory that the data may take; beyond it batches are copied one by one.
SHARE_OF_DEVICE = 0.5


@dataclass(frozen=True)
class Feed:
    """How rows become a module's input."""

    # Shape of a row as it is given: (d,) for a table, (H, W) or (H, W, C) for an image.
    row_shape: tuple[int, ...]
    pixels: bool  # whether rows are images of uint8, which a module sees divided by 255
    device: str  # "auto" or a device as PyTorch names it

    @classmethod
    def of(cls, X: NDArray[Any], device: str) -> Feed:
        """Return the feed for rows like these."""
        row_shape = tuple(X.shape[1:])
        return cls(row_shape, len(row_shape) > 1 and X.dtype == np.uint8, device)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of a row as the module sees it: (d,), or channels first."""
        if len(self.row_shape) == 1:
            return self.row_shape
        if len(self.row_shape) == 2:
            return (1, *self.row_shape)
        return (self.row_shape[-1], *self.row_shape[:-1])

    def transform(self, X: Any) -> Tensor:
        """Return rows as a tensor of uint8 or float32, on the device where it fits there.

        Raises
        ------
        ValueError
            If the rows have another shape, or hold what float32 cannot, or pixels of another range.
        """
        X = np.asarray(X)
        if tuple(X.shape[1:]) != self.row_shape:
            raise ValueError(
                f"X has rows of shape {X.shape[1:]}, the net takes rows of shape {self.row_shape}"
            )
        if not (self.pixels and X.dtype == np.uint8):
            with np.errstate(over="ignore"):
                X = X.astype(np.float32, copy=False)
            low, high = (X.min(), X.max()) if X.size else (0.0, 0.0)
            if not (np.isfinite(low) and np.isfinite(high)):
                raise ValueError("X contains NaN, infinity or a value too large for float32")
            if self.pixels and (low < 0 or high > 1):
                raise ValueError(
                    f"the net was fitted on pixels of uint8; as floats they must lie in [0, 1], X holds "
                    f"{low:g} … {high:g}"
                )
        # PyTorch warns of a read-only array, so such an array is copied. To silence the warning instead would
        # change Python's warning filters, which all threads share.
        table = torch.from_numpy(np.require(X, requirements=["C_CONTIGUOUS", "WRITEABLE"]))
        device = find_device(self.device)
        if device.type == "cuda" and table.nbytes > SHARE_OF_DEVICE * torch.cuda.mem_get_info(device)[0]:
            return table
        return table.to(device)

    def batch(self, rows: Tensor, device: torch.device) -> Tensor:
        """Return some rows of a transformed table as the module takes them, float32."""
        x = rows.to(device, non_blocking=True)
        if x.dtype == torch.uint8:
            x = x.float().div_(255)
        if x.ndim == 2:
            return x
        return x.unsqueeze(1) if x.ndim == 3 else x.movedim(-1, 1)


def find_device(name: str) -> torch.device:
    """Return the device of a name; "auto" is the GPU where there is one, else the CPU.

    Raises
    ------
    ValueError
        If PyTorch knows no such device, or the machine lacks it.
    """
    if name == "auto":
        return (
            torch.device("cuda", torch.cuda.current_device())
            if torch.cuda.is_available()
            else torch.device("cpu")
        )
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"device={name!r} cannot be used here ({reason}); 'auto' takes what there is"
        ) from None
    return device
