"""Make a model and a folder of pictures for it, of scikit-learn's handwritten digits.

    drover run -o made prepare.py

The model is trained on the first thousand; the other 797 become pictures of 8 x 8
points, each named after its place and the digit that it shows.
"""
import os

import joblib
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

TRAINED = 1000

images, labels = load_digits(return_X_y=True)
model = MLPClassifier((64,), learning_rate_init=0.01, random_state=0).fit(images[:TRAINED] / 16, labels[:TRAINED])
joblib.dump(model, os.path.join(os.environ.get("SM_MODEL_DIR", "."), "model.joblib"))

folder = os.path.join(os.environ.get("SM_OUTPUT_DATA_DIR", "."), "pictures")
os.makedirs(folder, exist_ok=True)
for n, (image, label) in enumerate(zip(images, labels)):
    if n >= TRAINED:
        with open(os.path.join(folder, "%04d shows %d.pgm" % (n, label)), "wb") as f:
            f.write(b"P5 8 8 16\n" + bytes(image.astype("uint8")))
print("%d pictures" % (len(images) - TRAINED))
