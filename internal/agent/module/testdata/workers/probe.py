"""What a worker sees and leaves, as one JSON document."""

import json
import logging
import multiprocessing
import os
import sys

PREFIXES = ("SM_", "SSM_", "SAGEMAKER_", "SMDEBUG_")


def tree(folder):
    found = {}
    for at, folders, files in os.walk(folder):
        for name in folders:
            found[os.path.relpath(os.path.join(at, name), folder) + "/"] = None
        for name in files:
            with open(os.path.join(at, name)) as f:
                found[os.path.relpath(os.path.join(at, name), folder)] = f.read()
    return found


def fields(config):
    """The fields that scripts can ask for; the machine's cores by a name."""
    seen = dict(vars(config))
    if "SM_NUM_CPUS" not in os.environ and seen.get("num_cpus") == multiprocessing.cpu_count():
        seen["num_cpus"] = "the machine's"
    return seen


def tell(config, **more):
    json.dump(dict(
        more,
        fields=fields(config),
        argv=sys.argv[1:],
        environ={k: v for k, v in os.environ.items() if k.startswith(PREFIXES)},
        level=logging.getLogger().level,
        state=tree(config.state),
    ), sys.stdout, sort_keys=True, indent=1)
