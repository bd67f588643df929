"""with_ray.py N PROGRAM: N tasks, each starting PROGRAM, in Ray with 8 slots; prints the seconds from submit to done."""
import subprocess
import sys
import tempfile
import time

import ray


@ray.remote
def work(program, item):
    return subprocess.run([program, str(item)]).returncode


# below /tmp, whatever TMPDIR is: the sockets in it have names of at most 107 bytes
def main():
    items, program = int(sys.argv[1]), sys.argv[2]
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as folder:
        ray.init(num_cpus=8, include_dashboard=False, log_to_driver=False, _temp_dir=folder)
        ray.get([work.remote(program, 0) for _ in range(8)])  # its workers are up: their start is not counted
        began = time.monotonic()
        statuses = ray.get([work.remote(program, item) for item in range(items)])
        seconds = time.monotonic() - began
        ray.shutdown()
    if any(statuses):
        sys.exit(f"{sum(map(bool, statuses))} of {items} items did not succeed")
    print(seconds)


main()
