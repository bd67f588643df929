"""Train a small network on drawn digits with TensorFlow on several nodes.

    python train.py --epochs 3                                    here, alone
    drover run --nodes 2 --launcher tf train.py --epochs 3        the same on two nodes
    drover run --nodes 2 --launcher tf --no-env train.py --show   what TF_CONFIG holds, and stop

requirements.txt brings tensorflow: 2 GB on disk. drover's own tests only look at
what --show says. tf_keras is Keras 2: Keras 3 cannot train with this strategy. To
keep it short there are no checkpoints: started again, it begins at epoch 1.
examples/ddp shows how to keep them.
"""
import argparse
import json
import os
import sys

os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")

# Ten digits, three dots wide and five high, row by row.
GLYPHS = """111101101101111 010110010010111 111001111100111 111001111001111 101101111001001
            111100111001111 111100111101111 111001001001001 111101111101111 111101111001111""".split()


def me():
    """This worker's index and how many there are; alone, nobody says TF_CONFIG."""
    config = json.loads(os.environ.get("TF_CONFIG", "{}"))
    workers = config.get("cluster", {}).get("worker", ["here"])
    return config.get("task", {}).get("index", 0), workers


def draw(numpy, count, seed):
    """count images of 8x8 dots and what they show: glyphs anywhere, with noise. The same on every worker."""
    random = numpy.random.default_rng(seed)
    labels = random.integers(10, size=count)
    images = 0.6 * random.random((count, 8, 8))
    glyphs = numpy.array([[float(dot) for dot in glyph] for glyph in GLYPHS]).reshape(10, 5, 3)
    for image, label, row, column in zip(images, labels, random.integers(4, size=count), random.integers(6, size=count)):
        image[row:row + 5, column:column + 3] += glyphs[label]
    return images.reshape(count, 64).astype("float32"), labels


def train(args):
    import numpy
    import tensorflow as tf

    index, _ = me()
    # Before anything else of TensorFlow's: it opens the worker's port.
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    images, labels = draw(numpy, 4096, seed=1)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    batches = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(4096, seed=1).batch(args.batch, drop_remainder=True)

    tf.keras.utils.set_random_seed(0)
    with strategy.scope():
        model = tf.keras.Sequential([
            tf.keras.layers.Input((64,)), tf.keras.layers.Dense(128, "relu"), tf.keras.layers.Dense(10)])
        model.compile(tf.keras.optimizers.SGD(args.lr, momentum=0.9),
                      tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    model.fit(batches.with_options(options), epochs=args.epochs, verbose=0, callbacks=[
        tf.keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: print(
            f"epoch={epoch + 1} loss={logs['loss']:.6f} accuracy={logs['accuracy']:.4f}", flush=True))])
    if index == 0:
        folder = os.environ.get("SM_MODEL_DIR", "model")
        os.makedirs(folder, exist_ok=True)
        numpy.savez(os.path.join(folder, "model.npz"), *model.get_weights())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--batch", type=int, default=128, help="images in each step, over all workers")
    parser.add_argument("--show", action="store_true", help="say what TF_CONFIG holds, and stop")
    args = parser.parse_args()
    index, workers = me()
    print(f"worker {index} of {len(workers)}: {' '.join(workers)}", flush=True)
    if not args.show:
        train(args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
