import os
import pathlib

import probe
from worker_toolkit import worker_lib

config = worker_lib.WorkerConfig()
pathlib.Path(config.instance_state, "seen").write_text(config.channel_data)
pathlib.Path(os.environ["SSM_OUTPUT"], "x").write_text("output")
probe.tell(config.config, output=probe.tree(os.environ["SSM_OUTPUT"]))
