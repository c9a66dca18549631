"""The process: its address, what it refuses before it loads a module, how it ends."""

import json
import signal
import socket
import subprocess
import threading
import urllib.request

import pytest

pytest.importorskip("fastapi")

from tests.cli.command import error, tfnlp  # noqa: E402
from tests.support import start_python  # noqa: E402


def test_a_busy_port_and_a_broken_folder(capsys, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        assert tfnlp("serve", tmp_path, "--port", port) == 1
        assert f"--port {port} of 127.0.0.1 is in use" in error(capsys)
    assert tfnlp("serve", tmp_path, "--port", 0) == 1
    assert str(tmp_path) in error(capsys)


@pytest.mark.slow
@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)]
)
def test_a_signal_ends_it_when_requests_are_answered(module_of, number):
    pipe = subprocess.PIPE
    # A request waits a second for others, so it is under way when the signal comes.
    command = ["-m", "tfnlp", "serve", module_of("classify"), "--port", 0, "--wait", 1000]
    with start_python(*command, stdout=pipe, stderr=pipe) as process:
        try:
            assert process.stdout.readline().endswith("classify: classify\n")
            address = process.stdout.readline().split()[0]
            urllib.request.urlopen(address + "api/module", timeout=60).read()
            answers = []
            clients = [threading.Thread(target=lambda: answers.append(ask(address)))
                       for _ in range(2)]  # fmt: skip
            for client in clients:
                client.start()
            for client in clients:
                client.join(0.3)
            process.send_signal(number)
            for client in clients:
                client.join(60)
            assert process.wait(60) == 0
            assert [a["predictions"][0]["label"] for a in answers] == ["yes", "yes"]
            assert "Traceback" not in process.stderr.read()
        finally:
            process.kill()


def ask(address):
    request = urllib.request.Request(
        address + "api/classify", b'{"instances": ["a cat"]}', {"Content-Type": "application/json"}
    )
    return json.load(urllib.request.urlopen(request, timeout=60))
