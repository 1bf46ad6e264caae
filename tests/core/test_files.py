"""Files that cannot be written, and what is open already."""

import os

import pytest

from tailboost.core.files import write_output


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no folder"):
        write_output(tmp_path / "none" / "m.model", b"")


@pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="descriptors have no names")
def test_what_is_open_is_written_to_at_its_position(tmp_path, capfd):
    path = tmp_path / "all.csv"
    path.write_text("kept, ")
    with path.open("a") as file:
        (tmp_path / str(file.fileno())).symlink_to(f"/dev/fd/{file.fileno()}")
        for folder in filter(os.path.isdir, ("/dev/fd", "/proc/self/fd", tmp_path)):
            write_output(f"{folder}/{file.fileno()}", "added, ")
        file.write("last")
    assert path.read_text().replace("added, ", "") == "kept, last"
    for rows in "ab":
        write_output("/dev/stdout", rows)
    os.write(1, b"c")
    assert capfd.readouterr().out == "abc"
    read, write = os.pipe()
    (tmp_path / "link").symlink_to(f"/dev/fd/{write}")
    for name in (f"/dev/fd/{write}", tmp_path / "link"):
        write_output(name, "rows")
        assert os.read(read, 9) == b"rows"
    for end in (read, write):
        os.close(end)
