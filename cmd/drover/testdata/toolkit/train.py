"""Writes what a training script sees, as JSON: arguments, folder, SM_* variables."""
import json
import os
import sys

seen = {
    "args": sys.argv,
    # The folder where the command was typed is /opt/ml/code, too, by another name.
    "folder": "/opt/ml/code" if os.path.samefile(".", "/opt/ml/code") else os.getcwd(),
    "variables": {name: value for name, value in os.environ.items() if name.startswith("SM_")},
}
host = os.environ["SM_CURRENT_HOST"]
with open(os.path.join(os.environ["SM_MODEL_DIR"], "seen-" + host + ".json"), "w") as f:
    json.dump(seen, f, indent=1, sort_keys=True)
