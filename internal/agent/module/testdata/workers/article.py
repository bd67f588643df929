"""Reads the inputs, counts its runs in the state, leaves a model and an output."""

import pathlib

import probe
from worker_toolkit import worker_lib

config = worker_lib.WorkerConfig()
runs = pathlib.Path(config.instance_state, "runs")
runs.write_text(str(int(runs.read_text()) + 1 if runs.exists() else 1))
for channel in config.channels:
    for path in sorted(pathlib.Path(getattr(config, "channel_" + channel)).glob("*")):
        pathlib.Path(config.model_dir, path.name).write_text(path.read_text() + " by " + config.current_host)
pathlib.Path(config.output_data_dir, "output_" + config.current_host).write_text(config.hps["task_type"])
probe.tell(config.config, model=probe.tree(config.model_dir), output=probe.tree(config.output_data_dir))
