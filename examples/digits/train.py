"""Train a small network on scikit-learn's handwritten digits.

    python train.py --epochs 3                here, as it is
    drover run train.py --epochs 3            the same, anywhere

It keeps a checkpoint after each epoch and goes on from it; Ctrl-C or SIGTERM ends it
after the current epoch. It speaks SageMaker's contract: SM_MODEL_DIR,
SM_OUTPUT_DATA_DIR, SM_CHECKPOINT_DIR.
"""
import argparse
import json
import os
import signal
import sys
import time

import joblib
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier


def checkpoint_folder():
    if "SM_CHECKPOINT_DIR" in os.environ:
        return os.environ["SM_CHECKPOINT_DIR"]
    if os.access("/opt/ml/checkpoints", os.W_OK):
        return "/opt/ml/checkpoints"
    return "checkpoints"


def save(thing, path):
    """Write it beside its place, then move it there: a reader finds all of it or the one before."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    joblib.dump(thing, path + ".tmp")
    os.replace(path + ".tmp", path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.001)
    parser.add_argument("--slow", type=float, default=0, help="seconds to sleep in each epoch")
    args = parser.parse_args()

    stop = []
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, lambda *_: stop.append(True))

    images, labels = load_digits(return_X_y=True)
    images = images / 16
    train, test = slice(0, 1437), slice(1437, None)

    checkpoint = os.path.join(checkpoint_folder(), "digits.joblib")
    model = MLPClassifier((64,), learning_rate_init=args.lr, random_state=0)
    epoch, metrics = 0, {}
    if os.path.exists(checkpoint):
        model, epoch, metrics = joblib.load(checkpoint)
        print(f"resumed from epoch {epoch}", flush=True)

    while epoch < args.epochs and not stop:
        model.partial_fit(images[train], labels[train], classes=range(10))
        time.sleep(args.slow)
        epoch += 1
        accuracy = model.score(images[test], labels[test])
        metrics = {"epoch": epoch, "loss": round(model.loss_, 4), "accuracy": round(accuracy, 4)}
        print(f"epoch={epoch} loss={model.loss_:.4f} accuracy={accuracy:.4f}", flush=True)
        save((model, epoch, metrics), checkpoint)

    if stop and epoch < args.epochs:
        print(f"stopped at epoch {epoch}, checkpoint saved", flush=True)
        return 143

    save(model, os.path.join(os.environ.get("SM_MODEL_DIR", "model"), "model.joblib"))
    if "SM_OUTPUT_DATA_DIR" in os.environ:
        with open(os.path.join(os.environ["SM_OUTPUT_DATA_DIR"], "metrics.json"), "w") as f:
            json.dump(metrics, f)
    return 0


if __name__ == "__main__":
    sys.exit(main())
