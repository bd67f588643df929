"""Say which digit each picture shows, and how sure that is.

    drover map --from 'made/output/pictures/*.pgm' --stream -- classify.py "$PWD/made/model/model.joblib"

The model is loaded once in each process, and answers many pictures.
"""
import sys

import drover
import joblib
import numpy

model = joblib.load(sys.argv.pop(1))  # what is left are pictures, where there is no drover


def read(path):
    with open(path, "rb") as f:
        head, points = f.readline(), f.read()
    if head != b"P5 8 8 16\n" or len(points) != 64:
        raise ValueError("it is no picture of 8 x 8 points")
    return numpy.frombuffer(points, "uint8") / 16


def classify(path):
    sure = model.predict_proba([read(path)])[0]
    return {"digit": sure.argmax(), "sure": round(sure.max(), 4)}


drover.map(classify)
