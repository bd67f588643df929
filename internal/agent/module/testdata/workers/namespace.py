import argparse

import probe
from worker_toolkit import worker_lib

config = worker_lib.WorkerConfig(per_instance_state=False)
parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=1)
parser.add_argument("--data", default="here")
args, _ = parser.parse_known_args()
config.updateNamespace(args, {"num_cpus": "workers", "channel_data": "data", "host_rank": "rank"})
wrong = ""
try:
    config.updateNamespace(args, {"no_such_field": "x"})
except AttributeError:
    wrong = "AttributeError"
probe.tell(config.config, args=vars(args), wrong=wrong)
