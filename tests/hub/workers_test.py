"""A module that two processes train together, against gradient descent in one."""

import json
import socket

import numpy as np
import pytest
import tensorflow as tf

from tests.hub.bag import ROWS, SCALE, Bag, penalised_steps
from tests.support import start_python

pytestmark = pytest.mark.long


def test_two_workers_are_one(tmp_path):
    tf.saved_model.save(Bag(), str(tmp_path / "bag"))
    with socket.socket() as first, socket.socket() as second:
        for each in (first, second):
            each.bind(("localhost", 0))
        places = [f"localhost:{each.getsockname()[1]}" for each in (first, second)]
    processes = []
    for index in range(2):
        config = {"cluster": {"worker": places}, "task": {"type": "worker", "index": index}}
        command = ["-m", "tests.hub.worker", tmp_path / "bag", tmp_path / f"{index}.npz"]
        with open(tmp_path / f"{index}.log", "w") as log:
            env = {"TF_CONFIG": json.dumps(config)}
            processes.append(start_python(*command, stderr=log, env=env))
    try:
        codes = [process.wait(timeout=240) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert codes == [0, 0], (tmp_path / "0.log").read_text()[-2000:]
    for index in range(2):
        found = np.load(tmp_path / f"{index}.npz").values()
        for got, want in zip(found, penalised_steps(ROWS, SCALE, 2, 1e-4), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4)
