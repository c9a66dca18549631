"""The rendezvous of workers, as threads of one process."""

import json
import socket
import threading
import time

import pytest

from tests.training.scale_test import addresses
from tfnlp.training.cluster.rendezvous import host_and_port, rendezvous


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
    assert start_all(places, [2, 0, 1]) == [None, None, None]
    assert start_all(places, [0, 1, 2]) == [None, None, None]  # and again, at the same ports


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
    assert isinstance(error, ConnectionError)
    assert "can't listen at port" in str(error) and place in str(error)


def test_workers_of_other_versions_or_clusters_are_refused():
    places = addresses(2)
    for error in start_all(places, [0, 1], versions={1: "2"}):
        assert "worker 1 has another version of tfnlp (2) than worker 0 (1)" in str(error)
    other = [places[0], places[1].replace("127.0.0.1", "localhost")]
    for error in start_all(places, [0, 1], lists={1: other}):
        assert "another list of workers" in str(error)


def test_an_address_that_other_workers_cannot_reach_is_refused():
    # 192.0.2.0/24 is reserved for documentation.
    (port,) = (place.rpartition(":")[2] for place in addresses(1))
    places = [*addresses(1), f"192.0.2.1:{port}"]
    for error in start_all(places, [0, 1]):
        assert isinstance(error, ConnectionError)
        assert f"192.0.2.1:{port}" in str(error) and "can't reach it" in str(error)


def connect(place, message):
    """Send `message` to `place` as soon as something listens there, and close."""
    deadline = time.monotonic() + 20
    while True:
        try:
            with socket.create_connection(host_and_port(place), timeout=5) as connection:
                return connection.sendall(message)
        except ConnectionRefusedError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def lead(places):
    """Start worker 0 in a thread; return the thread and the list that gets its outcome."""
    outcome = []
    thread = threading.Thread(
        target=lambda: outcome.extend(start_all(places, [0], 30.0)), daemon=True
    )
    thread.start()
    return thread, outcome


def test_other_connections_are_ignored():
    places = addresses(2)
    leader, outcome = lead(places)
    for message in (b"", b"GET / HTTP/1.1\r\n\r\n", b"[1]\n", b'{"index"\n', b"\xff\xfe\n"):
        connect(places[0], message)
    assert start_all(places, [1]) == [None]
    leader.join(30)
    assert outcome == [None]


def test_a_worker_may_be_restarted_before_all_are_there():
    places = addresses(3)
    leader, outcome = lead(places)
    with socket.create_server(("", host_and_port(places[1])[1])):
        hello = {"index": 1, "addresses": places, "version": "1"}
        connect(places[0], json.dumps(hello).encode() + b"\n")  # and it dies
    assert start_all(places, [1, 2]) == [None, None]
    leader.join(30)
    assert outcome == [None]


@pytest.mark.parametrize("address, parts", [("a.b:80", ("a.b", 80)), ("[::1]:2222", ("::1", 2222))])
def test_addresses(address, parts):
    assert host_and_port(address) == parts


@pytest.mark.parametrize("address", ["a.b", "a:", ":80", "a:b", "a:0", "a:70000", "a:²", ""])
def test_bad_addresses(address):
    with pytest.raises(ValueError, match="must be host:port"):
        host_and_port(address)
