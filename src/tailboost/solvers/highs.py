"""HiGHS, the solver of linear programs, without a word on standard output."""

from __future__ import annotations

import highspy


class QuietHighs(highspy.Highs):
    """HiGHS with one thread and no output.

    Since version 1.16 HiGHS prints its name at its first call, on file descriptor 1, where the shell writes
    JSON. The constructor of ``highspy.Highs`` makes that call in `enableCallbacks`, so the output is turned
    off there.
    """

    def __init__(self) -> None:
        super().__init__()
        self.setOptionValue("threads", 1)

    def enableCallbacks(self) -> None:
        """Turn the output off, and then enable callbacks."""
        self.setOptionValue("output_flag", False)
        super().enableCallbacks()
