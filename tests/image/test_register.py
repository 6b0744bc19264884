"""docs/decisions/images.md is what its script makes of the recipes, and a store's images fit into it."""
import os
import pathlib
import shutil
import subprocess

from .helpers import COTO, SOURCE, ok

SCRIPT = SOURCE / "tools/image-register"


def test_the_register_is_up_to_date():
    assert subprocess.run([SCRIPT], timeout=60).returncode == 0


def test_a_changed_recipe_is_noticed(tmp_path):
    for part in ("docker", "tools", "docs/decisions"):
        shutil.copytree(SOURCE / part, tmp_path / part)
    recipe = tmp_path / "docker/sandbox.Dockerfile"
    recipe.write_text(recipe.read_text() + "# changed\n")
    script = tmp_path / "tools/image-register"
    done = subprocess.run([script], capture_output=True, timeout=60)
    assert done.returncode == 1 and b"--update" in done.stderr
    assert subprocess.run([script, "--update"], timeout=60).returncode == 0
    assert subprocess.run([script], timeout=60).returncode == 0


def test_images_of_a_store_with_digest_and_signature(store, root, tmp_path):
    digest = store.take(root, "ia-libre/sandbox")
    key = tmp_path / "key"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", key], check=True, capture_output=True)
    env = dict(os.environ, COTO=COTO)

    def row():
        text = ok(subprocess.run([SCRIPT, "--store", store.path], capture_output=True, timeout=60, env=env))
        assert text.startswith(pathlib.Path(SOURCE / "docs/decisions/images.md").read_text())
        return text.splitlines()[-1]

    assert row() == f"| ia-libre/sandbox:latest | sha256:{digest} | directory | not told | 0 | none |"
    ok(store.image("sign", "ia-libre/sandbox", "--key", key))
    assert row().endswith("| Ed25519 or P-256 |")
