"""What a worker written for simple-sagemaker knows of its job, under the same names.

    from worker_toolkit import worker_lib

    config = worker_lib.WorkerConfig()
    print(config.channel_data, config.hps, config.instance_state)

It reads the variables of SageMaker's contract, the same on every target of drover and
on SageMaker itself. Nothing but the standard library, Python 3.6 and newer.
"""

import argparse
import json
import logging
import os
import pathlib
import shlex
import shutil
import sys

__all__ = ["WorkerConfig", "parseArgs", "setDebugLevel", "initMultiWorkersState", "markCompleted"]

logger = logging.getLogger(__name__)

def JSON(text):  # by its name argparse says what is wrong
    return json.loads(text)


# Each field: the word that sets it on the command line, the variable that says it,
# what it is without, and how the text is read.
_FIELDS = (
    ("--model_dir", "SM_MODEL_DIR", "", str),
    ("--output-data-dir", "SM_OUTPUT_DATA_DIR", "", str),
    ("--output-dir", "SM_OUTPUT_DIR", "", str),
    ("--input-dir", "SM_INPUT_DIR", "", str),
    ("--input-config-dir", "SM_INPUT_CONFIG_DIR", "", str),
    ("--input-data-config", "SM_INPUT_DATA_CONFIG", "", str),
    ("--hps", "SM_HPS", "[]", JSON),
    ("--channels", "SM_CHANNELS", "[]", JSON),
    ("--channel-data", "SM_CHANNEL_DATA", "", str),
    ("--channel-model", "SM_CHANNEL_MODEL", "", str),
    ("--current_host", "SM_CURRENT_HOST", "", str),
    ("--hosts", "SM_HOSTS", "[]", JSON),
    ("--num_gpus", "SM_NUM_GPUS", "-1", int),
    ("--num_cpus", "SM_NUM_CPUS", str(os.cpu_count() or 1), int),
    ("--network_interface_name", "SM_NETWORK_INTERFACE_NAME", "", str),
    ("--job_name", "SAGEMAKER_JOB_NAME", os.environ.get("TRAINING_JOB_NAME", ""), str),
    ("--resource-config", "SM_RESOURCE_CONFIG", "", str),
)

# What the functions of earlier versions read as well.
_EARLIER = (("--epochs", 50, int), ("--batch-size", 64, int), ("--learning-rate", 0.05, float), ("--use-cuda", False, bool))

_MARK = "__COMPLETED__"

# The state that is this node's alone, a copy: on SageMaker, and where drover runs it.
_COPY = os.environ.get("DROVER_STATE_DIR", "/state")


class WorkerConfig:
    """The configuration of this node: each field is an attribute, as in config.num_cpus.

    per_instance_state calls initMultiWorkersState, set_debug_level setDebugLevel;
    update_argv puts what came behind "--" into sys.argv, where it is still packed.
    init_multi_instance_state is the first one's name in earlier versions.
    """

    def __init__(self, per_instance_state=True, set_debug_level=True, update_argv=True, init_multi_instance_state=None):
        if init_multi_instance_state is not None:
            per_instance_state = init_multi_instance_state
        if set_debug_level:
            self.setDebugLevel()
        self.per_instance_state = False
        self.parseArgs()
        if per_instance_state:
            self.initMultiWorkersState()
        if update_argv:
            self._unpack_argv()
        os.environ["SMDEBUG_LOG_LEVEL"] = "warning"  # SageMaker's debugger sets the root logger's level to its own
        logger.info("Worker config: %s", self.config)

    def __getattr__(self, name):
        if name == "config":  # not there yet: a copy, or a subclass in its making
            raise AttributeError(name)
        return getattr(self.config, name)

    def setDebugLevel(self):
        """Sets the root logger's level to SM_LOG_LEVEL, or else INFO."""
        setDebugLevel()

    def parseArgs(self):
        """Reads the fields from the environment; words on the command line win."""
        self.config = _read()
        os.environ["SSM_NUM_NODES"] = str(self.config.num_nodes)
        os.environ["SSM_HOST_RANK"] = str(self.config.host_rank)
        os.environ["SSM_TENSORBOARD_DIR"] = self.config.tensorboard_dir
        os.environ["SSM_STATE"] = self.config.state

    def updateNamespace(self, namespace, fields_mapping):
        """Copies fields into a namespace: {"num_cpus": "workers"} sets its workers."""
        for field, name in fields_mapping.items():
            setattr(namespace, name, getattr(self.config, field))

    def initMultiWorkersState(self):
        """Makes this node's own folder below the state, and gives its path.

        The folders of other nodes, which a state begins with, are taken away: what all
        nodes leave is merged. It may be called again, and does nothing then.
        """
        if not self.per_instance_state:
            self.per_instance_state = True
            self.config.instance_state = _own_state(self.config)
            os.environ["SSM_INSTANCE_STATE"] = self.config.instance_state
        return self.config.instance_state

    def markCompleted(self):
        """Leaves the job's name in this node's state, as earlier versions do."""
        self.initMultiWorkersState()
        _mark(self.config)

    def _unpack_argv(self):
        if "--external_hps" not in sys.argv:
            return
        at = sys.argv.index("--external_hps")
        packed = sys.argv[at + 1][1:-1]  # in quotes, that no shell has taken off
        sys.argv = sys.argv[:1] + shlex.split(packed) + sys.argv[1:at] + sys.argv[at + 2:]
        logger.info("sys.argv was updated to: %s", sys.argv)


# Below are the functions of version 0.9.14 and before: they take what parseArgs gives.


def setDebugLevel():
    """Sets the root logger's level to SM_LOG_LEVEL, or else INFO."""
    logging.getLogger().setLevel(int(os.environ.get("SM_LOG_LEVEL", logging.INFO)))


def parseArgs():
    """The fields as a namespace: WorkerConfig's, and those of these versions."""
    config = _read(_EARLIER)
    config.channel_names, config.network_interface = config.channels, config.network_interface_name
    for name, value in list(vars(config).items()):
        if name.startswith("channel_") and name != "channel_names":
            setattr(config, "input_" + name[len("channel_"):], value)
    logger.info("Args: %s", config)
    return config


def initMultiWorkersState(args):
    """Makes this node's own folder below the state, and gives its path."""
    if not hasattr(args, "instance_state"):
        args.instance_state = _own_state(args)
    return args.instance_state


def markCompleted(args):
    """Leaves the job's name in this node's state."""
    initMultiWorkersState(args)
    _mark(args)


def _read(more=()):
    _read_processing()
    # No abbreviations: --model would be taken for --model_dir, and --input for an error.
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for word, variable, default, read in _FIELDS:
        parser.add_argument(word, type=read, default=os.environ.get(variable, default))
    for word, default, read in more:
        parser.add_argument(word, type=read, default=default)
    config, _ = parser.parse_known_args()
    for name in config.channels:
        folder = os.environ.get("SM_CHANNEL_" + name.upper())
        if folder is not None:
            setattr(config, "channel_" + name, folder)
    config.num_nodes = len(config.hosts) or -1
    config.host_rank = config.hosts.index(config.current_host) if config.hosts else -1
    tensorboard = os.path.join(config.output_dir or "/opt/ml/output", "tensorboard")
    config.tensorboard_dir = os.environ.get("SSM_TENSORBOARD_DIR", tensorboard)
    config.state = os.environ.get("SSM_STATE", _COPY)
    return config


def _read_processing():
    """A processing job has its names in files alone, and no variables for them."""
    try:
        with open("/opt/ml/config/processingjobconfig.json") as f:
            job = json.load(f)
        with open("/opt/ml/config/resourceconfig.json") as f:
            hosts = json.load(f)
    except OSError:
        return
    os.environ.setdefault("SAGEMAKER_JOB_NAME", job["ProcessingJobName"])
    os.environ.setdefault("SM_HOSTS", json.dumps(hosts["hosts"]))
    os.environ.setdefault("SM_CURRENT_HOST", hosts["current_host"])


def _own_state(config):
    own = str(pathlib.Path(config.state, config.current_host))
    logger.info("Deleting other instances' state")
    try:
        there = os.listdir(config.state) if config.current_host else []  # without a name this is no job
    except OSError:
        there = []
    for name in there:
        if name.startswith("algo-") and name != config.current_host and _is_ours_to_delete(config, name):
            shutil.rmtree(os.path.join(config.state, name), ignore_errors=True)
    if not os.path.isdir(own):
        logger.info("Creating state dir")
        os.makedirs(own, exist_ok=True)
    return own


def _is_ours_to_delete(config, name):
    """Says whether taking another node's folder away takes it from this node alone.

    drover gives each node a copy of the state, and so does SageMaker. A folder that
    somebody else has chosen (SSM_STATE) may be one that all nodes share: a folder of
    theirs is in use.
    """
    return os.path.normpath(config.state) == os.path.normpath(_COPY) or name not in config.hosts


def _mark(config):
    logger.info("Marking instance %s completion", config.current_host)
    with open(os.path.join(config.instance_state, _MARK), "w") as f:
        f.write(config.job_name)
