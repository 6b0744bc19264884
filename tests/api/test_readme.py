"""README's second screen does what it says."""
import re
import shutil
import subprocess

import pytest

from .helpers import BIN, PATIENCE, SOURCE

# Directories and a port of its own, and a start that takes longer than whoever types the next line.
SLOWLY = """#!/bin/sh
sleep 1
exec {bin}/coto "$@" --port=0 --high-isolation=none --runtime-dir={room}/run --state-dir={room}/state
"""
AT_THE_END = "trap 'kill $!; wait $!' EXIT\n"


@pytest.mark.skipif(not (shutil.which("curl") and shutil.which("jq")), reason="needs curl and jq")
def test_the_service_in_three_curl_commands(tmp_path_factory):
    room = tmp_path_factory.mktemp("readme")
    for path in (room, *room.parents[:2]):
        path.chmod(0o755)  # the front of a service of root is another user
    (room / "build").mkdir()
    (room / "build/coto").write_text(SLOWLY.format(bin=BIN, room=room))
    (room / "build/coto").chmod(0o755)
    block = re.search(r"## As a service.*?```sh\n(.*?)```", (SOURCE / "README.md").read_text(), re.S)[1]
    assert "build/coto serve &" in block and "/run/coto/api.sock" in block and block.count("\napi ") + block.count("$(api ") == 3
    script = AT_THE_END + block.replace("/run/coto/api.sock", str(room / "run/api.sock"))
    done = subprocess.run(["bash", "-ec", script], capture_output=True, text=True, timeout=PATIENCE, cwd=room)
    assert done.returncode == 0, done
    assert '"stdout":"4\\n"' in done.stdout and '"output":"42\\n"' in done.stdout, done
