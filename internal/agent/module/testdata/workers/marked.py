"""As version 0.9.19 has it."""

import probe
from worker_toolkit import worker_lib

config = worker_lib.WorkerConfig(init_multi_instance_state=True)
config.markCompleted()
path = config.initMultiWorkersState()
print(path)
print(open(path + "/__COMPLETED__").read())
print(sorted(probe.tree(config.state)))
