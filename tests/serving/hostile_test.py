"""Clients that stall, hang up or send too much; what a module's error tells them."""

import dataclasses
import json
import socket
import sys
import threading

import pytest
import tensorflow as tf

pytest.importorskip("fastapi")
from fastapi.testclient import TestClient  # noqa: E402

from tests.serving.toys import application, listening  # noqa: E402
from tfnlp.serving import app, server  # noqa: E402
from tfnlp.serving.action import Action  # noqa: E402
from tfnlp.tasks.playground import Field  # noqa: E402

ERRORS = {
    "missing": tf.errors.NotFoundError(None, None, "/srv/models/a/vocab.txt; No such file"),
    "traced": ValueError('in user code: File "/home/al/m.py", line 3, and file:///srv/x, C:\\y'),
    "asserted": tf.errors.InvalidArgumentError(None, None, "predicate 7 and/or 8: 3 words"),
    "denied": OSError(13, "Permission denied", "/srv/models"),
}


def run(rows):
    for row in rows:
        if row["text"] in ERRORS:
            raise ERRORS[row["text"]]
    return [{"length": len(row["text"])} for row in rows]


FIELDS = (Field("text", "Text", "line", "a"),)
ACTION = Action("count", "Count", "Count", "Its length.", FIELDS, run)
ACTIONS = {"count": ACTION}


def send(address, body, declared=None, close=False):
    """Return a connection on which the beginning of a body, or all of it, was sent."""
    client = socket.create_connection(address, timeout=30)
    head = "POST /api/count HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += "Connection: close\r\n" * close
    client.sendall(f"{head}Content-Length: {declared or len(body)}\r\n\r\n".encode() + body)
    return client


def test_a_client_that_hangs_up_ends_its_stream():
    """Of a text that would never end; others are answered meanwhile, and after it."""
    ended, made = threading.Event(), []

    def endless(row):
        try:
            while True:
                made.append(f"{row['text']} {len(made)}")
                yield {"text": " ".join(made)}
        finally:
            ended.set()

    with listening({"count": dataclasses.replace(ACTION, stream=endless)}) as address:
        body = b'{"instances": ["a"]}'
        head = "POST /api/count/stream HTTP/1.1\r\nHost: localhost\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.create_connection(address, timeout=30) as client:
            client.sendall(head.encode() + body)
            with client.makefile("rb") as file:
                lines = []
                while len(lines) < 3:
                    line = file.readline()
                    lines += [line] if line.startswith(b"{") else []
            assert [json.loads(line)["text"] for line in lines] == ["a 0", " a 1", " a 2"]
            assert answer(send(address, body, close=True))[1] == {"predictions": [{"length": 1}]}
        assert ended.wait(30)
        count = len(made)
        assert answer(send(address, body, close=True))[0] == 200
        assert len(made) == count


def test_an_error_in_a_stream_is_its_last_line():
    def broken(row):
        yield {"text": "a"}
        raise ERRORS["missing"]

    actions = {"count": dataclasses.replace(ACTION, stream=broken)}
    with application(actions) as made:
        client = TestClient(made, base_url="http://127.0.0.1")
        lines = client.post("/api/count/stream", json={"instances": ["a"]}).text.splitlines()
    assert json.loads(lines[0]) == {"text": "a"} and len(lines) == 2
    assert "failed: NotFoundError" in json.loads(lines[1])["error"]


def answer(client):
    """Return the status of an answer and its JSON; the server must close the connection."""
    with client, client.makefile("rb") as file:
        head, _, body = file.read().partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


def test_a_body_that_does_not_come(monkeypatch):
    monkeypatch.setattr(app, "_BODY", 0.2)
    with listening(ACTIONS) as address:
        assert answer(send(address, b"{", 100))[0] == 408


def test_a_length_beyond_the_limit_is_refused_before_the_body_comes():
    with listening(ACTIONS, max_bytes=1000) as address:
        status, said = answer(send(address, b"", 1001))
    assert (status, said) == (413, {"error": "the body has more than 1,000 bytes"})


def test_half_bodies_are_held_up_to_a_limit(monkeypatch):
    monkeypatch.setattr(app, "_BODIES", 2)
    with listening(ACTIONS, max_bytes=1000) as address:
        stalled = [send(address, b" " * 900, 1000) for _ in range(2)]
        status, said = answer(send(address, b" " * 900, 1000))
        assert status == 503 and "try again later" in said["error"]
        for client in stalled:  # the two are not lost for it, and their room is free again
            client.sendall(b'{"instances": ["ab"]}'.ljust(100))
            assert client.recv(15).split()[1] == b"200"
            client.close()
        with send(address, b'{"instances": ["abc"]}'.ljust(1000)) as client:
            assert client.recv(15).split()[1] == b"200"


def test_a_client_that_hangs_up_is_not_worth_a_line(capfd, caplog):
    with listening(ACTIONS) as address:
        for _ in range(3):
            send(address, b'{"inst', 100).close()
        with send(address, b'{"instances": ["abc"]}') as client:
            assert client.recv(15).split()[1] == b"200"
    assert capfd.readouterr().err == "" and not caplog.records


def test_a_body_that_does_not_come_does_not_hold_the_server(monkeypatch, capfd):
    monkeypatch.setattr(server, "_STOPPING", 1)
    with listening(ACTIONS) as address:
        stalled = send(address, b"{", 100)
        with send(address, b'{"instances": ["abc"]}') as client:  # the server has read both
            client.recv(15)
    stalled.close()
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize("host, local", [
    ("127.0.0.1", True), ("127.0.0.2", True), ("localhost", True), ("::1", True),
    ("::ffff:127.0.0.1", True), ("0.0.0.0", False), ("::", False),
])  # fmt: skip
def test_names_are_checked_wherever_the_bound_address_is_local(host, local):
    if sys.platform != "linux" and host == "127.0.0.2":
        pytest.skip("only Linux has all of 127.0.0.0/8")
    with server._bound(host, 0) as bound:
        assert server._is_local(bound) == local
    with application(ACTIONS, local, host=host) as made:
        client = TestClient(made, base_url="http://127.0.0.1")
        ask = [client.get("/api/module", headers={"Host": name}).status_code for name in
               ("evil.example", f"[{host}]:80" if ":" in host else host)]  # fmt: skip
    assert ask == [400 if local else 200, 200]


@pytest.mark.parametrize("name, status, said", [
    ("missing", 500, "the module failed: NotFoundError"),
    ("denied", 500, "the module failed: PermissionError"),
    ("traced", 422, 'in user code: File "...", line 3, and ..., ...'),
    ("asserted", 422, "predicate 7 and/or 8: 3 words"),
])  # fmt: skip
def test_an_error_of_the_module_tells_no_path(name, status, said):
    with application(ACTIONS) as made:
        client = TestClient(made, base_url="http://127.0.0.1")
        found = client.post("/api/count", json={"instances": [name]})
    assert found.status_code == status and found.json()["error"].endswith(said)
