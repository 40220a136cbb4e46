"""The memory that MPS clients share, mounted in a mount namespace of the test's own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tonnage.adapters.mps.shared_memory import main, mount_shared_memory
from tonnage.model.errors import HardwareError

MOUNTS = (
    subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False, timeout=60).returncode
    == 0
)


@pytest.mark.skipif(not MOUNTS, reason="needs the right to mount")
def test_it_is_a_tmpfs_for_everybody_and_mounted_once(tmp_path: Path) -> None:
    code = f"""if True:
        import os
        from pathlib import Path
        from tonnage.adapters.mps.shared_memory import mount_shared_memory
        folder, meminfo = Path({str(tmp_path)!r}) / "mps/shm", Path({str(tmp_path)!r}) / "meminfo"
        meminfo.write_text("MemTotal:  204800 kB\\nMemFree: 1 kB\\n")
        assert mount_shared_memory(folder, meminfo=meminfo)
        (folder / "a client's").write_text("x")
        assert not mount_shared_memory(folder, meminfo=meminfo)
        assert (folder / "a client's").exists()
        assert folder.stat().st_mode & 0o7777 == 0o1777
        size = os.statvfs(folder)
        assert size.f_blocks * size.f_frsize == 102400 << 10
        (line,) = [line for line in open("/proc/self/mountinfo") if str(folder) in line]
        assert " - tmpfs shm " in line and "nosuid,nodev,noexec" in line
    """
    done = subprocess.run(
        ["unshare", "--mount", sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_what_cannot_be_mounted_is_an_error_with_what_it_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HardwareError, match="cannot be mounted") as caught:
        mount_shared_memory(tmp_path / "file" / "shm")
    assert "run the agent privileged" in str(caught.value)
    assert main([str(tmp_path / "file" / "shm")]) == 3
    assert "cannot be mounted" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["a", "b"], ["relative"]])
def test_it_takes_one_folder(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith("usage:")


def test_without_a_word_of_the_kernel_it_is_small(tmp_path: Path) -> None:
    from tonnage.adapters.mps.shared_memory import _size_kib

    assert _size_kib(tmp_path / "absent") == 65536
