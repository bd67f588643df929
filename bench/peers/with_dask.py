"""with_dask.py N PROGRAM: N tasks, each starting PROGRAM, in Dask with 2 workers of 4 threads; prints the seconds from submit to done."""
import subprocess
import sys
import time

from distributed import Client, LocalCluster


def work(program, item):
    return subprocess.run([program, str(item)]).returncode


def main():
    items, program = int(sys.argv[1]), sys.argv[2]
    with LocalCluster(n_workers=2, threads_per_worker=4, dashboard_address=None) as cluster, Client(cluster) as client:
        client.gather(client.map(work, [program] * 8, range(-8, 0), pure=False))  # its threads are up: their start is not counted
        began = time.monotonic()
        statuses = client.gather(client.map(work, [program] * items, range(items), pure=False))
        seconds = time.monotonic() - began
    if any(statuses):
        sys.exit(f"{sum(map(bool, statuses))} of {items} items did not succeed")
    print(seconds)


if __name__ == "__main__":
    main()
