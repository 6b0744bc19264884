"""README's second screen does what it says."""
import re
import shutil
import subprocess

import pytest

from .helpers import PATIENCE, SOURCE


@pytest.mark.skipif(not (shutil.which("curl") and shutil.which("jq")), reason="needs curl and jq")
def test_the_service_in_three_curl_commands(service):
    block = re.search(r"## As a service.*?```sh\n(.*?)```", (SOURCE / "README.md").read_text(), re.S)[1]
    serve, *lines = block.splitlines()
    assert serve.split("#")[0].rstrip() == "build/coto serve &" and "/run/coto/api.sock" in block
    script = "\n".join(lines).replace("/run/coto/api.sock", str(service.runtime / "api.sock"))
    done = subprocess.run(["bash", "-ec", script], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done
    assert '"stdout":"4\\n"' in done.stdout and '"output":"42\\n"' in done.stdout
