"""Requests that are computed together: who shares a call, who fails, what is refused."""

import threading

import pytest

from tfnlp.serving.batching import Batcher, Closed, Overloaded


class Held:
    """A `run` that waits at its first call, so that what comes meanwhile is queued."""

    def __init__(self):
        self.calls, self.began, self.go = [], threading.Event(), threading.Event()

    def __call__(self, key, rows):
        self.calls.append((key, list(rows)))
        if len(self.calls) == 1:
            self.began.set()
            assert self.go.wait(60)
        if "bad" in rows:
            raise ValueError("bad row")
        return [f"{key}:{row}" for row in rows]


@pytest.fixture
def held():
    run = Held()
    yield run
    run.go.set()


def started(held, **settings):
    batcher = Batcher(held, **settings)
    first = batcher.submit("k", ["first"])
    assert held.began.wait(60)
    return batcher, first


def test_waiting_requests_of_one_key_share_a_call(held):
    batcher, first = started(held, batch_size=4, wait=0)
    futures = [batcher.submit(key, rows) for key, rows in
               (("k", [1]), ("other", [2]), ("k", [3, 4]), ("k", [5, 6]))]  # fmt: skip
    held.go.set()
    assert first.result(60) == ["k:first"]
    assert [f.result(60) for f in futures] == [["k:1"], ["other:2"], ["k:3", "k:4"], ["k:5", "k:6"]]
    # The last two rows have no room beside three others; the other key keeps its turn.
    assert held.calls[1:] == [("k", [1, 3, 4]), ("other", [2]), ("k", [5, 6])]
    batcher.close()


def test_a_large_request_is_computed_in_parts(held):
    held.go.set()
    batcher = Batcher(held, batch_size=2)
    assert batcher.submit("k", [1, 2, 3]).result(60) == ["k:1", "k:2", "k:3"]
    assert held.calls == [("k", [1, 2]), ("k", [3])]
    batcher.close()


def test_the_parts_of_a_large_request_end_with_the_server(held):
    batcher = Batcher(held, batch_size=1, wait=0)
    large = batcher.submit("k", ["first", "second"])
    assert held.began.wait(60)
    closing = threading.Thread(target=batcher.close)
    closing.start()
    while not batcher._closed:
        closing.join(0.01)
    held.go.set()
    with pytest.raises(Closed):
        large.result(60)
    assert held.calls == [("k", ["first"])]


def test_one_request_does_not_fail_for_another(held):
    batcher, _ = started(held, wait=0)
    good, bad, last = (batcher.submit("k", [row]) for row in ("good", "bad", "last"))
    held.go.set()
    assert good.result(60) == ["k:good"] and last.result(60) == ["k:last"]
    with pytest.raises(ValueError, match="bad row"):
        bad.result(60)
    batcher.close()


def test_too_much_is_refused_and_what_waits_is_finished(held):
    batcher, first = started(held, max_waiting=3, wait=0)
    waiting = batcher.submit("k", [1], size=3)
    with pytest.raises(Overloaded, match="3 texts are waiting"):
        batcher.submit("k", [2])
    closing = threading.Thread(target=batcher.close)
    closing.start()
    held.go.set()
    closing.join(60)
    assert first.result(0) == ["k:first"] and waiting.result(0) == ["k:1"]
    with pytest.raises(Closed):
        batcher.submit("k", [3])
