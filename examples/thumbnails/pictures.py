"""pictures.py FOLDER N: makes N pictures of 480 x 360, no two alike."""
import math
import os
import sys

import png

WIDTH, HEIGHT = 480, 360


def row(picture, y):
    pixels = bytearray()
    for x in range(WIDTH):
        wave = math.sin(x / (30 + picture)) + math.cos(y / (20 + 2 * picture))
        pixels += bytes((int(128 + 60 * wave), (x * 255 // WIDTH + 9 * picture) & 255, y * 255 // HEIGHT))
    return pixels


def main():
    folder, number = sys.argv[1], int(sys.argv[2])
    os.makedirs(folder, exist_ok=True)
    for picture in range(1, number + 1):
        path = os.path.join(folder, f"picture {picture:02}.png")  # a space: names are only names
        if not os.path.exists(path):
            png.write(path, WIDTH, [row(picture, y) for y in range(HEIGHT)])


main()
