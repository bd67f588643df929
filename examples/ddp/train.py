"""Train a small network on drawn digits with torch's DistributedDataParallel.

    python train.py --epochs 3                                    here, alone
    drover run --nodes 2 --launcher torch train.py --epochs 3     the same on two nodes

It needs torch and nothing else. However many processes there are, each step
sees the same images and takes the same step, so the loss of one process and of
eight is the same but for rounding. Rank 0 keeps a checkpoint after each epoch and
saves the model; the others follow it. Ctrl-C or SIGTERM ends all of them after the current
epoch, whichever of them it reached.
"""
import argparse
import os
import signal
import sys
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel

# Ten digits, three dots wide and five high, row by row.
GLYPHS = """111101101101111 010110010010111 111001111100111 111001111001111 101101111001001
            111100111001111 111100111101111 111001001001001 111101111101111 111101111001111""".split()


def draw(count, seed):
    """count images of 8x8 dots and what they show: glyphs anywhere, with noise. The same on every rank."""
    random = torch.Generator().manual_seed(seed)
    labels = torch.randint(10, (count,), generator=random)
    images = 0.6 * torch.rand(count, 8, 8, generator=random)
    glyphs = torch.tensor([[float(dot) for dot in glyph] for glyph in GLYPHS]).view(10, 5, 3)
    rows = torch.randint(4, (count,), generator=random)
    columns = torch.randint(6, (count,), generator=random)
    for image, label, row, column in zip(images, labels, rows, columns):
        image[row:row + 5, column:column + 3] += glyphs[label]
    return images.view(count, 64), labels


def save(thing, path):
    """Write it beside its place, then move it there: a reader finds all of it or the one before."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    torch.save(thing, path + ".tmp")
    os.replace(path + ".tmp", path)


def total(value, op=dist.ReduceOp.SUM):
    """Over all ranks, and the same on each."""
    value = torch.tensor(value, dtype=torch.float64)
    dist.all_reduce(value, op)
    return value.item()


def train_epoch(model, optimizer, images, labels, batch, generator):
    """One pass over all images; gives the mean loss, over all ranks."""
    rank, world = dist.get_rank(), dist.get_world_size()
    lost = 0.0
    for step in torch.randperm(len(images), generator=generator).split(batch):
        mine = step[rank::world]
        summed = nn.functional.cross_entropy(model(images[mine]), labels[mine], reduction="sum")
        optimizer.zero_grad()
        # DDP takes the mean of what the ranks give. Of sums divided by the whole
        # batch's share, that is the batch's mean, also when shares are not equal.
        (summed * world / len(step)).backward()
        optimizer.step()
        lost += summed.item()
    return total(lost) / len(images)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.3)
    parser.add_argument("--batch", type=int, default=128, help="images in each step, over all ranks")
    parser.add_argument("--slow", type=float, default=0, help="seconds to sleep in each epoch")
    args = parser.parse_args()

    stop = []
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, lambda *_: stop.append(True))

    # Alone, nobody says these.
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}.items():
        os.environ.setdefault(name, value)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    speaks = os.environ.get("LOCAL_RANK", "0") == "0"  # one process on each node

    images, labels = draw(4096, seed=1)
    unseen, answers = draw(1024, seed=2)
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.SGD(network.parameters(), args.lr, momentum=0.9)

    # Each node finds its own newest checkpoint, and they may be of different
    # epochs. So rank 0 reads, and everybody takes what it found.
    checkpoint = os.path.join(os.environ.get("SM_CHECKPOINT_DIR", "checkpoints"), "ddp.pt")
    found = [torch.load(checkpoint) if rank == 0 and os.path.exists(checkpoint) else None]
    dist.broadcast_object_list(found)
    epoch = 0
    if found[0]:
        epoch = found[0]["epoch"]
        network.load_state_dict(found[0]["network"])
        optimizer.load_state_dict(found[0]["optimizer"])
    if speaks:
        print(f"rank {rank} of {world}" + (f", resumed from epoch {epoch}" if epoch else ""), flush=True)

    model = DistributedDataParallel(network)
    while epoch < args.epochs:
        # All stop, or none: who left alone would leave the others waiting.
        if total(len(stop), dist.ReduceOp.MAX):
            if speaks:
                print(f"stopped at epoch {epoch}, checkpoint saved", flush=True)
            return 143
        epoch += 1
        generator = torch.Generator().manual_seed(epoch)
        loss = train_epoch(model, optimizer, images, labels, args.batch, generator)
        time.sleep(args.slow)
        with torch.no_grad():
            accuracy = (network(unseen).argmax(1) == answers).float().mean().item()
        if speaks:
            print(f"epoch={epoch} loss={loss:.7f} accuracy={accuracy:.4f}", flush=True)
        if rank == 0:
            save({"epoch": epoch, "network": network.state_dict(), "optimizer": optimizer.state_dict()}, checkpoint)

    if rank == 0:
        save(network.state_dict(), os.path.join(os.environ.get("SM_MODEL_DIR", "model"), "model.pt"))
    dist.barrier()
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
