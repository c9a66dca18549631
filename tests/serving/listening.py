"""Applications of actions that need no module, in this process and at an address."""

import contextlib
import threading

from tfnlp.serving import app, server
from tfnlp.serving.batching import Batcher
from tfnlp.serving.module import ServedModule
from tfnlp.settings.serve import ServeSettings


@contextlib.contextmanager
def application(actions, local=True, **settings):
    config = ServeSettings.make(module="toy", **settings)
    served = ServedModule("toy", actions)
    batcher = Batcher(served.run, wait=0)
    try:
        yield app.make_app(served, config, batcher, local)
    finally:
        batcher.close()


@contextlib.contextmanager
def listening(actions, **settings):
    """A running server's address; what holds it up when it is told to stop fails the test."""
    with application(actions, **settings) as made, server._bound("127.0.0.1", 0) as bound:
        bound.listen()
        address, served = bound.getsockname(), server.server_of(made)
        thread = threading.Thread(target=served.run, kwargs={"sockets": [bound]}, daemon=True)
        thread.start()
        try:
            yield address
        finally:
            served.should_exit = True
            thread.join(30)
            assert not thread.is_alive()
