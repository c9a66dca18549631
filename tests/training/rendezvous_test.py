"""The rendezvous of workers, as threads of one process."""

import contextlib
import hashlib
import json
import socket
import threading
import time

import pytest

from tests.training.scale_test import addresses
from tfnlp.training import rendezvous as module
from tfnlp.training.rendezvous import host_and_port, rendezvous


def start_all(places, indexes, seconds=20.0, versions=None, lists=None):
    """Start workers; return the error of each one, or None, in the order of `indexes`."""
    outcomes = [None] * len(indexes)

    def run(number):
        index = indexes[number]
        version = (versions or {}).get(index, "1")
        try:
            rendezvous((lists or {}).get(index, places), index, seconds, version)
        except Exception as error:
            outcomes[number] = error

    threads = [threading.Thread(target=run, args=(n,), daemon=True) for n in range(len(indexes))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return outcomes


def test_workers_start_in_any_order():
    assert start_all(addresses(1), [0]) == [None]
    places = addresses(3)
    for order in ([2, 0, 1], [0, 1, 2]):  # and again, at the same ports
        assert start_all(places, order) == [None, None, None]


@pytest.mark.parametrize("missing, there", [(2, [0, 1]), (0, [1, 2])])
def test_a_missing_worker_is_named_by_all_others(missing, there):
    places = addresses(3)
    for error in start_all(places, there, seconds=1.0):
        assert isinstance(error, TimeoutError)
        text = f"worker {missing} ({places[missing]}) did not start within 1 seconds"
        assert text in str(error)


def test_a_port_in_use_is_named():
    with socket.create_server(("", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        (error,) = start_all([place], [0])
    assert isinstance(error, ConnectionError) and place in str(error)


def test_a_worker_of_another_version_or_cluster_is_refused_and_may_be_mended(capfd):
    places = addresses(2)
    leader, outcome = lead(places)
    (error,) = start_all(places, [1], versions={1: "2"})
    assert isinstance(error, ConnectionError)
    assert "worker 1 has another version of tfnlp ('2') than worker 0 ('1')" in str(error)
    other = [places[0], places[1].replace("127.0.0.1", "localhost")]
    (error,) = start_all(places, [1], lists={1: other})
    assert "worker 1 has another list of workers than worker 0" in str(error)
    assert start_all(places, [1]) == [None]
    leader.join(30)
    assert outcome == [None]
    assert "worker 1 has another version" in capfd.readouterr().err


def test_an_address_that_other_workers_cannot_reach_is_refused():
    # 192.0.2.0/24 is reserved for documentation.
    (port,) = (place.rpartition(":")[2] for place in addresses(1))
    places = [*addresses(1), f"192.0.2.1:{port}"]
    leader, other = start_all(places, [0, 1], seconds=2.0)
    assert isinstance(leader, TimeoutError) and isinstance(other, ConnectionError)
    for error in (leader, other):
        assert f"192.0.2.1:{port}" in str(error) and "can't reach it" in str(error)


def connect(place, message):
    """Send `message` to `place` as soon as something listens there; return the connection."""
    deadline = time.monotonic() + 20
    while True:
        try:
            connection = socket.create_connection(host_and_port(place), timeout=20)
            connection.sendall(message)
            return connection
        except ConnectionRefusedError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def lead(places, seconds=30.0):
    """Start worker 0 in a thread; return the thread and the list that gets its outcome."""
    outcome = []
    thread = threading.Thread(
        target=lambda: outcome.extend(start_all(places, [0], seconds)), daemon=True
    )
    thread.start()
    return thread, outcome


STRANGERS = [
    b"",
    b"GET / HTTP/1.1\r\n\r\n",
    b"[1]\n",
    b"\xff\xfe\n",
    b"[" * 2000 + b"\n",
    b"[" * 60_000,
    b'{"index": true, "version": "1"}\n',
    b'{"index": 1, "addresses": [], "version": "\\u001b[31m2"}\n',
]


def drip(place, stop):
    """Send a byte of an endless message now and then, from a thread."""
    connection = connect(place, b"{")

    def send():
        with connection, contextlib.suppress(OSError):
            while not stop.wait(0.05):
                connection.sendall(b" ")

    threading.Thread(target=send, daemon=True).start()


def test_strangers_hold_up_neither_the_workers_nor_the_deadline(monkeypatch, capfd):
    monkeypatch.setattr(module, "_HELLO", 0.5)
    places, stop = addresses(2), threading.Event()
    leader, outcome = lead(places)
    for message in STRANGERS:
        connect(places[0], message).close()
    idle = [connect(places[0], b"") for _ in range(200)]
    drip(places[0], stop)
    assert start_all(places, [1]) == [None]
    leader.join(30)
    assert outcome == [None]
    assert "\x1b" not in capfd.readouterr().err
    for connection in idle:
        connection.close()
    leader, outcome = lead(places, seconds=1.0)
    drip(places[0], stop)
    leader.join(30)
    stop.set()
    assert isinstance(outcome[0], TimeoutError)


def test_a_stranger_in_place_of_the_first_worker_does_not_hold_the_others(monkeypatch):
    monkeypatch.setattr(module, "_GRACE", 0.2)
    places, stop = addresses(2), threading.Event()
    with socket.create_server(host_and_port(places[0])) as listener:

        def serve():
            with contextlib.suppress(OSError):
                for answer in (b"[1]\n", b"[" * 4000, b'"late"\n', b""):
                    connection = listener.accept()[0]
                    connection.sendall(answer)
                    connection.close()
                connection = listener.accept()[0]
                while not stop.wait(0.05):
                    connection.sendall(b" ")

        threading.Thread(target=serve, daemon=True).start()
        (error,) = start_all(places, [1], seconds=1.0)
        stop.set()
    assert isinstance(error, TimeoutError)


def test_a_worker_may_be_restarted_before_all_are_there():
    places = addresses(3)
    leader, outcome = lead(places)
    with socket.create_server(host_and_port(places[1])):
        cluster = hashlib.sha256("\n".join(places).encode()).hexdigest()
        hello = {"index": 1, "version": "1", "cluster": cluster}
        connect(places[0], json.dumps(hello).encode() + b"\n").close()  # it dies
    assert start_all(places, [1, 2]) == [None, None]
    leader.join(30)
    assert outcome == [None]


def test_addresses():
    assert host_and_port("a.b:80") == ("a.b", 80) and host_and_port("[::1]:2222") == ("::1", 2222)
    for address in ("a.b", ":80", "a:70000", "a:²"):
        with pytest.raises(ValueError, match="must be host:port"):
            host_and_port(address)
