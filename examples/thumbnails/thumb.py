"""thumb.py PICTURE THUMBNAIL: makes a picture four times smaller each way, every pixel the mean of 16."""
import sys

import png

SIDE = 4


def smaller(width, rows):
    for y in range(0, len(rows) - SIDE + 1, SIDE):
        line = bytearray()
        for x in range(0, 3 * (width - width % SIDE), 3 * SIDE):
            for colour in range(3):
                line.append(sum(sum(row[x + colour : x + 3 * SIDE : 3]) for row in rows[y : y + SIDE]) // SIDE**2)
        yield line


def main():
    picture, thumbnail = sys.argv[1:]
    width, rows = png.read(picture)
    lines = list(smaller(width, rows))
    png.write(thumbnail, width // SIDE, lines)
    print(f"{width}x{len(rows)} -> {width // SIDE}x{len(lines)}")


main()
