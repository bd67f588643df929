"""Train a small network on drawn digits with MPI and numpy.

    python train.py --epochs 3                                                       here, alone
    drover run --nodes 2 --procs-per-node 2 --launcher mpi train.py --epochs 3       four ranks on two nodes

requirements.txt brings MPI itself along (mpich), so nothing has to be installed on
the machines; another MPI does as well. However many ranks there are, each step sees
the same images and takes the same step. Rank 0 keeps a checkpoint after each epoch
and saves the model; the others take from it what it found.
"""
import argparse
import os
import sys

import numpy
from mpi4py import MPI

# Ten digits, three dots wide and five high, row by row.
GLYPHS = """111101101101111 010110010010111 111001111100111 111001111001111 101101111001001
            111100111001111 111100111101111 111001001001001 111101111101111 111101111001111""".split()
SHAPES = [(64, 128), (128,), (128, 10), (10,)]


def draw(count, seed):
    """count images of 8x8 dots and what they show: glyphs anywhere, with noise. The same on every rank."""
    random = numpy.random.default_rng(seed)
    labels = random.integers(10, size=count)
    images = 0.6 * random.random((count, 8, 8))
    glyphs = numpy.array([[float(dot) for dot in glyph] for glyph in GLYPHS]).reshape(10, 5, 3)
    for image, label, row, column in zip(images, labels, random.integers(4, size=count), random.integers(6, size=count)):
        image[row:row + 5, column:column + 3] += glyphs[label]
    return images.reshape(count, 64), labels


def say(text):
    """Print a line in one write: the ranks share what they print to."""
    print(text + "\n", end="", flush=True)


def save(path, **arrays):
    """Write them beside their place, then move them there: a reader finds all of it or the one before."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path + ".tmp", "wb") as f:
        numpy.savez(f, **arrays)
    os.replace(path + ".tmp", path)


def layers(weights):
    """The four arrays that lie behind each other in one vector."""
    ends = numpy.cumsum([numpy.prod(shape) for shape in SHAPES])
    return [part.reshape(shape) for part, shape in zip(numpy.split(weights, ends[:-1]), SHAPES)]


def forward(weights, images):
    w1, b1, w2, b2 = layers(weights)
    hidden = numpy.maximum(images @ w1 + b1, 0)
    return hidden, hidden @ w2 + b2


def gradient(weights, images, labels):
    """The loss of these images and its gradient, both as sums."""
    hidden, scores = forward(weights, images)
    chance = numpy.exp(scores - scores.max(axis=1, keepdims=True))
    chance /= chance.sum(axis=1, keepdims=True)
    places = numpy.arange(len(labels)), labels
    loss = -numpy.log(chance[places]).sum()
    chance[places] -= 1
    back = chance @ layers(weights)[2].T * (hidden > 0)
    parts = images.T @ back, back.sum(axis=0), hidden.T @ chance, chance.sum(axis=0)
    return loss, numpy.concatenate([part.ravel() for part in parts])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.3)
    parser.add_argument("--batch", type=int, default=128, help="images in each step, over all ranks")
    args = parser.parse_args()

    world = MPI.COMM_WORLD
    rank, ranks = world.rank, world.size
    say(f"rank {rank} of {ranks} on {os.environ.get('SM_CURRENT_HOST', 'this machine')}")

    images, labels = draw(4096, seed=1)
    unseen, answers = draw(1024, seed=2)
    checkpoint = os.path.join(os.environ.get("SM_CHECKPOINT_DIR", "checkpoints"), "mpi.npz")
    epoch, weights, speed = 0, None, None
    if rank == 0 and os.path.exists(checkpoint):
        with numpy.load(checkpoint) as found:
            epoch, weights, speed = int(found["epoch"]), found["weights"], found["speed"]
        say(f"resumed from epoch {epoch}")
    elif rank == 0:
        random = numpy.random.default_rng(0)
        weights = numpy.concatenate([random.normal(0, 0.1, shape).ravel() for shape in SHAPES])
        speed = numpy.zeros_like(weights)
    epoch, weights, speed = world.bcast((epoch, weights, speed))

    while epoch < args.epochs:
        epoch += 1
        order = numpy.random.default_rng(epoch).permutation(len(images))
        lost = 0.0
        for start in range(0, len(order), args.batch):
            step = order[start:start + args.batch]
            mine = step[rank::ranks]
            loss, slope = gradient(weights, images[mine], labels[mine])
            slope = world.allreduce(slope) / len(step)
            speed = 0.9 * speed + slope
            weights = weights - args.lr * speed
            lost += loss
        loss = world.allreduce(lost) / len(images)
        if rank == 0:
            accuracy = (forward(weights, unseen)[1].argmax(axis=1) == answers).mean()
            say(f"epoch={epoch} loss={loss:.7f} accuracy={accuracy:.4f}")
            save(checkpoint, epoch=epoch, weights=weights, speed=speed)

    if rank == 0:
        save(os.path.join(os.environ.get("SM_MODEL_DIR", "model"), "model.npz"), weights=weights)
    return 0


if __name__ == "__main__":
    sys.exit(main())
