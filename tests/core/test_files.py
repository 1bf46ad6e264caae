"""Files that cannot be written."""

import pytest

from tailboost.core.files import write


def test_a_missing_folder_is_named(tmp_path):
    cure = r"cannot be written \(there is no folder .*; make it first\): '.*m\.model'$"
    with pytest.raises(FileNotFoundError, match=cure):
        write(tmp_path / "none" / "m.model", b"", "the model")
