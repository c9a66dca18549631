"""How the processes of a cluster find each other before TensorFlow is told of them.

TensorFlow waits for a missing worker for up to an hour and does not say for which. So the workers
meet here first: each says its name to worker 0, which answers all of them when the last one has
come and its address can be reached, or tells them whom it waited for in vain.
"""

import json
import socket
import sys
import time

_PAUSE = 0.2  # seconds between attempts
_REMIND = 15.0  # seconds between lines that say who is missing


def meet(addresses, index, seconds, version=""):
    """Returns when all workers of a cluster are there.

    Args:
        addresses: "host:port" of every worker, the same list at each of them.
        index: which of them this process is.
        seconds: how long to wait.
        version: must be the same at all workers.

    Raises:
        TimeoutError: if a worker does not come; says which.
        ConnectionError: if this worker's port is taken, or the others are of another cluster.
    """
    deadline = time.monotonic() + seconds
    names = [f"worker {i} ({address})" for i, address in enumerate(addresses)]
    hello = {"index": index, "addresses": addresses, "version": version}
    with _listen(names[index], addresses[index]) as listener:
        if index == 0:
            _gather(listener, names, hello, deadline, seconds)
        else:
            _report(names, hello, deadline, seconds)


def host_and_port(address):
    """("host", port) of "host:port" or "[v6 host]:port".

    Raises:
        ValueError: for anything else.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"worker address {address!r} must be host:port, as in 10.0.0.2:2222")
    return host.strip("[]"), int(port)


def _listen(name, address):
    _, port = host_and_port(address)
    try:
        return socket.create_server(("", port), backlog=128)
    except OSError as error:
        raise ConnectionError(
            f"{name} can't listen at port {port} ({error.strerror}); is this worker running "
            "already? Stop it or give another port to all workers"
        ) from error


def _gather(listener, names, hello, deadline, seconds):
    """Worker 0: answers the others when all have come."""
    addresses, arrived = hello["addresses"], {}
    listener.settimeout(_PAUSE)
    reminder = time.monotonic() + _REMIND
    try:
        while len(arrived) < len(names) - 1:
            missing = [n for i, n in enumerate(names) if i and i not in arrived]
            if time.monotonic() > deadline:
                raise _missing(missing, seconds)
            if time.monotonic() > reminder:
                _remind(missing)
                reminder += _REMIND
            try:
                line, _ = listener.accept()
            except TimeoutError:
                continue
            index = _read_hello(line, hello)
            if index is None:
                line.close()
                continue
            if index in arrived:  # it was started again
                arrived.pop(index).close()
            reachable = _reachable(addresses[index], deadline)
            if not reachable and _hung_up(line):  # it died; it may come again
                line.close()
                continue
            arrived[index] = line
            if not reachable:
                raise ConnectionError(
                    f"{names[index]} has started, but worker 0 can't reach it at that address; "
                    "give the address by which the others see it"
                )
    except (TimeoutError, ConnectionError) as error:
        for line in arrived.values():
            _send(line, {"error": str(error), "late": isinstance(error, TimeoutError)})
        raise
    for line in arrived.values():
        _send(line, {})


def _read_hello(line, own):
    """The index that a worker says it has, or None if it is gone or no worker of ours.

    Raises:
        ConnectionError: if it belongs to another cluster; it is told so too.
    """
    line.settimeout(5.0)
    said = _receive(line)
    if not isinstance(said, dict) or "index" not in said:
        return None
    for key, what in (("addresses", "list of workers"), ("version", "version of tfnlp")):
        if said.get(key) != own[key]:
            error = (
                f"worker {said['index']} has another {what} ({said.get(key)}) than worker 0 "
                f"({own[key]}); start all with the same"
            )
            _send(line, {"error": error})
            raise ConnectionError(error)
    if said["index"] not in range(1, len(own["addresses"])):
        error = f"there is a second worker with index {said['index']}; give each its own"
        _send(line, {"error": error})
        raise ConnectionError(error)
    return said["index"]


def _reachable(address, deadline):
    limit = min(5.0, max(_PAUSE, deadline - time.monotonic()))
    try:
        socket.create_connection(host_and_port(address), timeout=limit).close()
    except OSError:
        return False
    return True


def _hung_up(line):
    line.setblocking(False)
    try:
        return line.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def _report(names, hello, deadline, seconds):
    """The other workers: go to worker 0 and wait for its answer."""
    leader = host_and_port(hello["addresses"][0])
    reminder = time.monotonic() + _REMIND
    while (left := deadline - time.monotonic()) > 0:
        if time.monotonic() > reminder:
            _remind(names[:1])
            reminder += _REMIND
        try:
            with socket.create_connection(leader, timeout=min(5.0, left)) as line:
                _send(line, hello)
                # Worker 0 knows whom it waits for, so its word is waited for a little longer.
                line.settimeout(left + 5.0)
                answer = _receive(line)
        except OSError:
            answer = None
        if answer is None:  # not there yet, or still the process of an earlier run
            time.sleep(_PAUSE)
        elif answer.get("late"):
            raise TimeoutError(answer["error"])
        elif "error" in answer:
            raise ConnectionError(answer["error"])
        else:
            return
    raise _missing(names[:1], seconds)


def _missing(names, seconds):
    verb = "was" if len(names) == 1 else "were"
    return TimeoutError(
        f"{', '.join(names)} {verb} not there within {seconds:g} seconds; start every worker with "
        "the same list of workers and its own index, and see that no firewall is between them"
    )


def _remind(names):
    print(f"waiting for {', '.join(names)}", file=sys.stderr, flush=True)


def _send(line, message):
    try:
        line.sendall(json.dumps(message).encode() + b"\n")
    except OSError:
        pass  # the other side is gone, which shows where its answer is awaited


def _receive(line):
    """One line of JSON, or None if it does not come or something else does."""
    data = b""
    try:
        while not data.endswith(b"\n") and data[:1] in (b"", b"{") and len(data) < 1 << 20:
            more = line.recv(1 << 16)
            if not more:
                break
            data += more
        return json.loads(data)
    except (OSError, ValueError):
        return None
