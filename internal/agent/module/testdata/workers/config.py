import logging
import os

logging.basicConfig(format="%(name)s %(levelname)s %(message)s")

import probe
from worker_toolkit import worker_lib

config = worker_lib.WorkerConfig()
missing = ""
try:
    config.no_such_field
except AttributeError:
    missing = "AttributeError"
probe.tell(config.config, per_instance_state=config.per_instance_state, missing=missing, rank=config.host_rank,
           own=os.path.isdir(config.instance_state), logger=worker_lib.logger.name)
