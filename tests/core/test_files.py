"""Files that cannot be written."""

import pytest

from tailboost.core.files import write_output


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no folder"):
        write_output(tmp_path / "none" / "m.model", b"")
