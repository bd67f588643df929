"""Train a small network on scikit-learn's handwritten digits, with some settings.

    drover map --from grid.csv -- train.py --lr {lr} --hidden {hidden}
    drover results last --top 5 --by acc

It knows nothing of drover: the best of many are found by what each printed last.
"""
import argparse

from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, required=True)
parser.add_argument("--hidden", type=int, required=True)
parser.add_argument("--epochs", type=int, default=8)
args = parser.parse_args()

images, labels = load_digits(return_X_y=True)
images = images / 16
model = MLPClassifier((args.hidden,), learning_rate_init=args.lr, random_state=0)
for epoch in range(1, args.epochs + 1):
    model.partial_fit(images[:1437], labels[:1437], classes=range(10))
    print(f"epoch={epoch} loss={model.loss_:.4f} acc={model.score(images[1437:], labels[1437:]):.4f}")
