"""A trainer for the scripts: a checkpoint after each epoch, an end at Ctrl-C and SIGTERM.

With --hold N it stays at epoch N until gate "go" is open, or it is told to end, and
keeps no checkpoint before that one, so that whoever sees one saved knows which; a run
that began at or after that epoch does neither. While it lives it shares the lock
train-ATTEMPT.
"""
import argparse
import fcntl
import json
import os
import signal
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--hold", type=int, default=-1)
parser.add_argument("--deaf", action="store_true", help="ignore both")
args = parser.parse_args()

lock = open(os.path.join(os.environ["LOCKS"], "train-" + os.environ.get("DROVER_ATTEMPT", "0")), "w")
fcntl.flock(lock, fcntl.LOCK_SH)

stop = []
for ending in (signal.SIGINT, signal.SIGTERM):
    signal.signal(ending, signal.SIG_IGN if args.deaf else lambda *_: stop.append(True))

checkpoint = os.path.join(os.environ["SM_CHECKPOINT_DIR"], "epoch.json")
epoch = 0
if os.path.exists(checkpoint):
    with open(checkpoint) as f:
        epoch = json.load(f)
    print(f"resumed from epoch {epoch}")
began = epoch

while epoch < args.epochs and not stop:
    epoch += 1
    print(f"epoch={epoch} loss={args.lr / epoch:.4f}")
    if epoch >= args.hold or began >= args.hold:
        with open(checkpoint + ".tmp", "w") as f:
            json.dump(epoch, f)
        os.replace(checkpoint + ".tmp", checkpoint)
    if epoch == args.hold and began < epoch:
        print(f"holding at {epoch}")
        while not stop and not os.path.exists(os.path.join(os.environ["GATES"], "go")):
            time.sleep(0.01)

if epoch < args.epochs:
    print(f"stopped at epoch {epoch}")
    sys.exit(143)
with open(os.path.join(os.environ["SM_MODEL_DIR"], "model.json"), "w") as f:
    json.dump({"epochs": epoch, "began": began}, f)
