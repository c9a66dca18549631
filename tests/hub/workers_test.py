"""A module that two processes train together, against gradient descent in one."""

import json
import os
import pathlib
import socket
import subprocess
import sys

import numpy as np
import tensorflow as tf

from tests.hub.bag import ROWS, SCALE, Bag, penalised_steps

ROOT = pathlib.Path(__file__).parents[2]


def test_two_workers_are_one(tmp_path):
    tf.saved_model.save(Bag(), str(tmp_path / "bag"))
    with socket.socket() as first, socket.socket() as second:
        for each in (first, second):
            each.bind(("localhost", 0))
        places = [f"localhost:{each.getsockname()[1]}" for each in (first, second)]
    processes = []
    for index in range(2):
        config = {"cluster": {"worker": places}, "task": {"type": "worker", "index": index}}
        environment = {**os.environ, "TF_CONFIG": json.dumps(config), "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "tests.hub.worker", "bag", f"{index}.npz"]
        log = open(tmp_path / f"{index}.log", "w")  # noqa: SIM115
        processes.append(
            subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, stderr=log)
        )
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
