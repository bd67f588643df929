"""As version 0.9.14 has it."""

import logging

import probe
from worker_toolkit import worker_lib

worker_lib.setDebugLevel()
args = worker_lib.parseArgs()
first = probe.tree(args.state)
path = worker_lib.initMultiWorkersState(args)
worker_lib.markCompleted(args)
for name in ("batch_size", "channel_names", "current_host", "epochs", "hosts", "hps", "input_config_dir", "input_data",
             "input_data_config", "input_dir", "input_model", "input_persons", "job_name", "learning_rate", "model_dir",
             "network_interface", "num_cpus", "num_gpus", "output_data_dir", "output_dir", "resource_config", "state", "use_cuda"):
    print(name, repr(getattr(args, name)))
print(path, worker_lib.initMultiWorkersState(args) == path, logging.getLogger().level)
print(sorted(first), sorted(probe.tree(args.state).items(), key=str))
