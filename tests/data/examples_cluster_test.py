"""Examples made on a cluster: Beam's Dask runner, with workers in processes of their own."""

import json
import os
import signal
import threading

import pytest

from tests.data.examples_support import contents, make

pytest.importorskip("apache_beam")
distributed = pytest.importorskip("distributed")
pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]

RUNNER = "apache_beam.runners.dask.dask_runner.DaskRunner"


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster:
        yield cluster


def kill_workers(cluster, folder, prefixes, killed, end):
    """Kill all running workers when the first file with each of `prefixes` has been finished.

    A worker that is starting is left alone: Dask gives one up that dies before it is connected.
    """
    for prefix in prefixes:
        while not end.wait(0.005):
            work = folder / "work"
            if any(n.startswith(prefix) for n in os.listdir(work if work.exists() else folder)):
                finished = json.loads((folder / "manifest.json").read_text())["finished"]
                processes = [worker.process for worker in cluster.workers.values()]
                running = [p.pid for p in processes if p and p.status == distributed.Status.running]
                for pid in running:
                    os.kill(pid, signal.SIGKILL)
                killed.append((prefix, bool(running), finished))
                break


def test_killed_workers_are_replaced_and_the_bytes_are_the_same(
    cluster, corpus, examples_of, tmp_path
):
    folder, killed, end = tmp_path / "cluster", [], threading.Event()
    folder.mkdir()
    arguments = (cluster, folder, ("piece-", "train-"), killed, end)
    killer = threading.Thread(target=kill_workers, args=arguments, daemon=True)
    killer.start()
    try:
        options = f"--dask_client_address={cluster.scheduler_address} --dask_npartitions=4"
        make("bert", corpus, folder, "--runner", RUNNER, f"--pipeline-options={options}")
    finally:
        end.set()
        killer.join()
    assert killed == [("piece-", True, False), ("train-", True, False)]
    assert contents(folder) == contents(examples_of("bert")[0])
