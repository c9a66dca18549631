"""Does the playground's server answer every request, beside hostile clients, and stay small?

    python -m benchmarks.serving [--requests 100000] [--clients 64] [--seed 0]

A small classifier is exported and served by `tfnlp serve`. Each client sends requests one after
another: texts, whose classes and probabilities must be those that the module gave each text alone
(up to 1e-5); and, one in four, what must be refused with its status: a body that is no JSON, too
long, of the wrong type or of unknown names, or half a body whose client hangs up. At the end the
server gets SIGTERM while all clients send on; what it took it must answer.

The exit code is 1 if an answer was lost or wrong, or the server did not end within the seconds that
it gives itself.
"""

import argparse
import collections
import contextlib
import http.client
import json
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

from benchmarks.kills import Bench
from tfnlp import books
from tfnlp.serving.server import _STOPPING

LEAST = 20_000  # requests between two lines
JSON = {"Content-Type": "application/json"}
# What is refused: the body, its headers and the status.
REFUSED = {
    "no JSON": (b'{"instances": [', JSON, 422),
    "deep": (b"[" * 100_000, JSON, 422),
    "unknown names": (b'{"instances": ["a"], "model": "/etc/passwd"}', JSON, 422),
    "numbers": (b'{"instances": [3]}', JSON, 422),
    "no text": (b'{"instances": [" "]}', JSON, 422),
    "half a character": (b'{"instances": ["\\ud800"]}', JSON, 422),
    "too many": (json.dumps({"instances": ["a"] * 257}).encode(), JSON, 413),
    "too long": (json.dumps({"instances": ["a" * 20_001]}).encode(), JSON, 413),
    "a form": (b"instances=a", {"Content-Type": "application/x-www-form-urlencoded"}, 415),
    "a length without end": (b"", {**JSON, "Content-Length": "9" * 12}, 413),
    "another host": (b'{"instances": ["a"]}', {**JSON, "Host": "evil.example"}, 400),
}
HANGS_UP = "hangs up"


class Load:
    """Clients of a server, and what became of their requests.

    Args:
        port: of the server.
        texts: what is asked; `expected` are `(label, probabilities)` of each.
        count: requests of all clients.
        seed: of what they send.
    """

    def __init__(self, port, texts, count, seed):
        self.port, self.texts, self.count, self.seed = port, texts, count, seed
        self.expected = [self.ask([text])[0] for text in texts]
        self.counts, self.wrong, self.sent = collections.Counter(), [], 0
        self.lock, self.stopping = threading.Lock(), threading.Event()

    def ask(self, texts):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            return self._predictions(
                *self._post(connection, json.dumps({"instances": texts}), JSON)
            )

    def _post(self, connection, body, headers):
        connection.request("POST", "/api/classify", body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()

    @staticmethod
    def _predictions(status, body):
        if status != 200:
            raise ValueError(f"status {status}: {body[:200]!r}")
        found = json.loads(body)["predictions"]
        return [(row["label"], [*row["probabilities"].values()]) for row in found]

    def client(self, number):
        """Send requests until all are sent, or, while the server stops, until it takes none."""
        rng = random.Random(f"{self.seed} {number}")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        while self.stopping.is_set() or self.sent < self.count:
            kind, error = "texts", ""
            if rng.random() < 0.25:
                kind = rng.choice([*REFUSED, HANGS_UP])
            try:
                error = self._request(connection, kind, rng)
            except (OSError, http.client.HTTPException) as failure:
                connection.close()
                if self.stopping.is_set():
                    return
                error = f"{type(failure).__name__}: {failure}"
            with self.lock:
                self.sent += 1
                self.counts[kind] += 1
                if error:
                    self.wrong.append(f"{kind}: {error}")
        connection.close()

    def _request(self, connection, kind, rng):
        """Return what is wrong with the answer to a request; "" if nothing is."""
        if kind == HANGS_UP:
            connection.close()
            connection.connect()
            head = "POST /api/classify HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n"
            connection.sock.sendall(f"{head}Content-Type: application/json\r\n\r\n{{".encode())
            connection.close()
            return ""
        if kind == "texts":
            chosen = [rng.randrange(len(self.texts)) for _ in range(rng.randint(1, 4))]
            body = json.dumps({"instances": [self.texts[i] for i in chosen]})
            status, said = self._post(connection, body, JSON)
            if status == 503:  # it says that it has too much to do, or stops
                return "" if self.stopping.is_set() else f"status 503: {said[:100]!r}"
            for i, (label, p) in zip(chosen, self._predictions(status, said), strict=True):
                if label != self.expected[i][0] or not np.allclose(
                    p, self.expected[i][1], atol=1e-5
                ):
                    return f"{self.texts[i]!r} is {label} {p}, alone {self.expected[i]}"
            return ""
        body, headers, wanted = REFUSED[kind]
        status, said = self._post(connection, body, headers)
        if "Content-Length" in headers:
            connection.close()
        return "" if status == wanted else f"status {status}, not {wanted}: {said[:100]!r}"


def resident(process):
    """Return the resident memory of a process in MB."""
    pages = int(pathlib.Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(pathlib.Path(folder), random.Random(arguments.seed))
        bench.reference("export_task")
        command = ["tfnlp", "serve", f"{folder}/export_task/module", "--port", "0"]
        server = subprocess.Popen(
            [sys.executable, "-m", *command], stdout=subprocess.PIPE, text=True
        )
        address = next(line for line in server.stdout if "http://" in line)
        port = int(address.split("http://")[1].split(":")[1].split("/")[0].split()[0])
        words = books.path().read_text(encoding="utf-8").split()[:8000]
        sizes = random.Random(arguments.seed).choices(range(1, 40), k=200)
        texts = [" ".join(words[40 * i : 40 * i + size]) for i, size in enumerate(sizes)]
        load = Load(port, texts, arguments.requests, arguments.seed)
        threads = [
            threading.Thread(target=load.client, args=(number,))
            for number in range(arguments.clients)
        ]
        start, next_line = time.monotonic(), LEAST
        for thread in threads:
            thread.start()
        while load.sent < load.count - arguments.clients:
            time.sleep(0.2)
            if load.sent >= next_line:
                seconds = time.monotonic() - start
                print(
                    f"{load.sent:,} requests, {load.sent / max(1, seconds):.0f} a second, "
                    f"{len(load.wrong)} wrong, {resident(server):.0f} MB",
                    flush=True,
                )
                next_line += LEAST
        load.stopping.set()
        server.send_signal(signal.SIGTERM)
        start = time.monotonic()
        try:
            code = server.wait(_STOPPING + 10)
        except subprocess.TimeoutExpired:
            server.kill()
            code = "none: it was killed"
        seconds = time.monotonic() - start
        for thread in threads:
            thread.join()
    print(*load.wrong[:20], sep="\n")
    kinds = ", ".join(f"{name} {n:,}" for name, n in load.counts.most_common())
    print(f"{load.sent:,} requests of {arguments.clients} clients: {kinds}")
    print(f"wrong or lost: {len(load.wrong)}; SIGTERM: ended in {seconds:.1f} s, exit code {code}")
    return 1 if load.wrong or code != 0 or seconds > _STOPPING + 5 else 0


if __name__ == "__main__":
    sys.exit(main())
