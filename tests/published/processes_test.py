"""Downloads in processes of their own, which read the environment."""

from tests.published.hub_server import files_in
from tests.support import run_python

# It imports neither TensorFlow nor Keras: what is tested comes before.
FETCH = """
import sys
from tfnlp.published import fetch
try:
    print(fetch(sys.argv[1], lambda files, path_of: files).folder)
except OSError as error:
    sys.exit(f"{error}")
"""
FILES = {"config.json": b"{}", "model.safetensors": bytes(range(256)) * 40}


def test_variables(hub, tmp_path):
    commit = hub.put("org/name", FILES)
    hub.token = "hf_secret"
    cache = {"HF_HUB_CACHE": str(tmp_path / "cache")}
    refused = run_python(FETCH, "hf://org/name", env=cache, check=False)
    assert refused.returncode == 1
    assert refused.stderr.startswith(f"hf://org/name is gated: accept its conditions at {hub.url}")
    done = run_python(FETCH, "hf://org/name", env={**cache, "HF_TOKEN": "hf_secret"})
    folder = tmp_path / f"cache/models--org--name/snapshots/{commit}"
    assert done.stdout.strip() == str(folder) and files_in(folder) == FILES
    assert f"hf://org/name is commit {commit}" in done.stderr
    hub.token = "nobody has it"
    offline = run_python(FETCH, "hf://org/name", env={**cache, "HF_HUB_OFFLINE": "1"})
    assert offline.stdout == done.stdout
    elsewhere = {"HF_HOME": str(tmp_path / "other"), "HF_HUB_OFFLINE": "1"}
    missing = run_python(FETCH, "hf://org/name", env=elsewhere, check=False)
    assert missing.stderr.splitlines()[-1] == (
        f"hf://org/name is not complete in the cache {tmp_path}/other/hub, and HF_HUB_OFFLINE is "
        "set; unset it to download the rest"
    )
