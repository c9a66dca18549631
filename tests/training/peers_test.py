"""Workers that meet before TensorFlow is told of them, as threads of one process."""

import json
import socket
import threading
import time

import pytest

from tests.training.scale_test import addresses
from tfnlp.training.cluster.peers import host_and_port, meet


def meeting(places, indexes, seconds=20.0, versions=None, lists=None):
    """What each worker's `meet` raised, None if nothing, in the order of `indexes`."""
    outcomes = [None] * len(indexes)

    def run(number):
        index = indexes[number]
        version = (versions or {}).get(index, "1")
        try:
            meet((lists or {}).get(index, places), index, seconds, version)
        except Exception as error:
            outcomes[number] = error

    threads = [threading.Thread(target=run, args=(n,), daemon=True) for n in range(len(indexes))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return outcomes


def test_all_that_come_meet():
    places = addresses(3)
    assert meeting(places, [2, 0, 1]) == [None, None, None]
    assert meeting(places, [0, 1, 2]) == [None, None, None]  # and again, at the same ports


def test_one_worker_alone_waits_for_nobody():
    assert meeting(addresses(1), [0]) == [None]


def test_a_missing_worker_is_named_to_all_that_came():
    places = addresses(3)
    for error in meeting(places, [0, 1], seconds=1.0):
        assert isinstance(error, TimeoutError)
        assert f"worker 2 ({places[2]}) was not there within 1 seconds" in str(error)


def test_a_missing_first_worker_is_named():
    places = addresses(3)
    for error in meeting(places, [1, 2], seconds=1.0):
        assert isinstance(error, TimeoutError) and f"worker 0 ({places[0]}) was" in str(error)


def test_a_port_that_is_taken_is_named():
    with socket.create_server(("", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        (error,) = meeting([place], [0])
    assert isinstance(error, ConnectionError)
    assert "can't listen at port" in str(error) and place in str(error)


def test_workers_of_other_versions_or_clusters_are_refused():
    places = addresses(2)
    for error in meeting(places, [0, 1], versions={1: "2"}):
        assert "worker 1 has another version of tfnlp (2) than worker 0 (1)" in str(error)
    other = [places[0], places[1].replace("127.0.0.1", "localhost")]
    for error in meeting(places, [0, 1], lists={1: other}):
        assert "another list of workers" in str(error)


def test_an_address_that_only_the_worker_itself_knows_is_refused():
    # 192.0.2.0/24 is kept for documentation: nothing is there.
    (port,) = (place.rpartition(":")[2] for place in addresses(1))
    places = [*addresses(1), f"192.0.2.1:{port}"]
    first, second = meeting(places, [0, 1])
    for error in (first, second):
        assert isinstance(error, ConnectionError)
        assert f"192.0.2.1:{port}" in str(error) and "can't reach it" in str(error)


def test_what_is_no_worker_does_no_harm():
    places = addresses(2)
    outcome = []
    leader = threading.Thread(target=lambda: outcome.append(meet(places, 0, 30.0)), daemon=True)
    leader.start()
    place, deadline = host_and_port(places[0]), time.monotonic() + 20
    for said in (b"", b"GET / HTTP/1.1\r\n\r\n", b"[1]\n", b'{"index"\n', b"\xff\xfe\n"):
        while True:
            try:
                with socket.create_connection(place, timeout=5) as line:
                    line.sendall(said)
                break
            except ConnectionRefusedError:
                assert time.monotonic() < deadline
    meet(places, 1, 30.0)
    leader.join(30)
    assert outcome == [None]


def test_a_worker_that_was_started_again_takes_its_own_place():
    places = addresses(2)
    hello = json.dumps({"index": 1, "addresses": places, "version": ""}).encode() + b"\n"
    outcome = []

    def lead():
        try:
            outcome.append(meet([*places, *third], 0, 30.0))
        except Exception as error:
            outcome.append(error)

    third = addresses(1)
    hello = hello.replace(json.dumps(places).encode(), json.dumps([*places, *third]).encode())
    leader = threading.Thread(target=lead, daemon=True)
    leader.start()
    with socket.create_server(("", host_and_port(places[1])[1])):
        for _ in range(200):
            try:
                with socket.create_connection(host_and_port(places[0]), timeout=5) as line:
                    line.sendall(hello)  # and it dies
                break
            except ConnectionRefusedError:
                threading.Event().wait(0.05)
    assert meeting([*places, *third], [1, 2], versions={1: "", 2: ""}) == [None, None]
    leader.join(30)
    assert outcome == [None]


@pytest.mark.parametrize(
    "address, parts", [("a.b:80", ("a.b", 80)), ("[::1]:2222", ("::1", 2222))]
)
def test_addresses(address, parts):
    assert host_and_port(address) == parts


@pytest.mark.parametrize("address", ["a.b", "a:", ":80", "a:b", "a:0", "a:70000", "a:²", ""])
def test_bad_addresses(address):
    with pytest.raises(ValueError, match="must be host:port"):
        host_and_port(address)
