"""Executables that stand for `python` and `tfnlp` where tests run scripts and notebooks.

What they are asked for runs in a fork of a process that has loaded TensorFlow (see `forked` and
`alone`); an interpreter of its own for each would spend more time on that than on anything else.
"""

import contextlib
import json
import os
import pathlib
import socketserver
import stat
import sys
import tempfile
import threading

from tests.alone import run_alone
from tests.forked import Forked

# It tells the test process what it was called with, passes on what comes back, and ends alike.
_CALLER = """#!{python} -SE
import json, os, socket, sys
asked = [os.getpid(), os.getcwd(), dict(os.environ), *sys.argv]
with socket.socket(socket.AF_UNIX) as line:
    line.connect({address!r})
    line.sendall(json.dumps(asked).encode())
    line.shutdown(socket.SHUT_WR)
    try:
        status, said, complaint = json.load(line.makefile())
    except KeyboardInterrupt:  # so ends a notebook's kernel
        sys.exit(130)
sys.stdout.write(said)
sys.stderr.write(complaint)
sys.exit(status)
"""


@contextlib.contextmanager
def stand_ins():
    """A folder, for as long as this is open, with two executables:

    - `tfnlp ARGUMENTS`, and `python -m MODULE ARGUMENTS`, which has all of tfnlp loaded;
    - `python FILE ARGUMENTS`, which has TensorFlow alone.
    """
    with contextlib.ExitStack() as open_ones:
        folder = open_ones.enter_context(tempfile.TemporaryDirectory())
        address = os.path.join(folder, "socket")
        server = open_ones.enter_context(socketserver.ThreadingUnixStreamServer(address, _Answerer))
        for name in ("python", "tfnlp"):
            path = pathlib.Path(folder, name)
            path.write_text(_CALLER.format(python=sys.executable, address=address))
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
        threading.Thread(target=server.serve_forever, args=(0.1,)).start()
        open_ones.callback(server.shutdown)
        yield pathlib.Path(folder)


class _Answerer(socketserver.StreamRequestHandler):
    def handle(self):
        answer = json.dumps(_answer(*json.load(self.rfile)))
        with contextlib.suppress(BrokenPipeError):  # of a caller that did not wait
            self.wfile.write(answer.encode())


def _answer(caller, folder, env, path, *arguments):
    """Exit status, stdout and stderr of a caller that ran `path ARGUMENTS` in `folder`."""
    name = os.path.basename(path)
    if name == "python" and arguments[0] != "-m":
        try:
            script, *rest = arguments
            return 0, run_alone(pathlib.Path(folder, script), *rest, folder=folder), ""
        except AssertionError as error:
            return 1, "", str(error)
    module, *rest = arguments[1:] if name == "python" else ("tfnlp.cli", *arguments)
    places = (f"/proc/{caller}/fd/{number}" for number in (1, 2))
    # What it starts with its own Python is answered here, too.
    executable = os.path.join(os.path.dirname(path), "python")
    forked = Forked(module, rest, *places, env=env, folder=folder, executable=executable)
    return forked.wait(), "", ""
