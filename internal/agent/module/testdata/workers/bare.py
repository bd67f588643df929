"""A worker that wants none of the conveniences, and then asks for the state."""

import logging
import os

logging.basicConfig(format="%(name)s %(levelname)s %(message)s")

import probe
from worker_toolkit import worker_lib

config = worker_lib.WorkerConfig(False, False, False)
before = probe.tree(config.state)
path = getattr(config, "instance_state", None)
level = logging.getLogger().level
config.setDebugLevel()
config.initMultiWorkersState()
config.initMultiWorkersState()
probe.tell(config.config, before=before, path=path, was=level, per_instance_state=config.per_instance_state)
