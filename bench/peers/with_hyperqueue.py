"""with_hyperqueue.py N PROGRAM: a job of N tasks, each PROGRAM, in HyperQueue's LocalCluster with one worker of 8 cores;
prints the seconds from submit to done, which it looks for once a second. Each task's output goes to files of its own, as it does unless told otherwise."""
import os
import sys
import tempfile
import time

from hyperqueue import Job, LocalCluster
from hyperqueue.cluster import WorkerConfig


def submit(client, items, program):
    job = Job()
    for item in range(items):
        job.program([program, str(item)])
    client.wait_for_jobs([client.submit(job)])  # raises if a task did not succeed


def main():
    items, program = int(sys.argv[1]), sys.argv[2]
    home = os.getcwd()
    with tempfile.TemporaryDirectory(prefix="hq-") as folder:
        os.chdir(folder)
        with LocalCluster() as cluster:
            cluster.start_worker(WorkerConfig(cores=8))
            client = cluster.client()
            submit(client, 8, program)  # its worker is up: its start is not counted
            began = time.monotonic()
            submit(client, items, program)
            seconds = time.monotonic() - began
        os.chdir(home)
    print(seconds)


main()
