"""PNG as rows of RGB bytes, read and written with what Python brings along."""
import struct
import sys
import zlib

MAGIC = b"\x89PNG\r\n\x1a\n"
PLAIN = (8, 2, 0)  # bits, RGB, not interlaced


def write(path, width, rows):
    header = struct.pack(">IIBBBBB", width, len(rows), 8, 2, 0, 0, 0)
    data = zlib.compress(b"".join(b"\1" + differences(row) for row in rows))
    with open(path, "wb") as file:
        file.write(MAGIC + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b""))


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def differences(row):
    """Filter 1: each byte as the difference from the one of the pixel to the left."""
    return bytes((now - left) & 255 for now, left in zip(row, b"\0\0\0" + row))


def read(path):
    """Gives the width and the rows."""
    with open(path, "rb") as file:
        data = file.read()
    if data[:8] != MAGIC:
        sys.exit(f"{path} is not a PNG")
    parts = list(chunks(data))
    width, height, bits, colour, _, _, interlaced = struct.unpack(">IIBBBBB", parts[0][1])
    if (bits, colour, interlaced) != PLAIN:
        sys.exit(f"{path} is not plain RGB with 8 bits")
    raw = zlib.decompress(b"".join(body for kind, body in parts if kind == b"IDAT"))
    rows, above, stride = [], bytes(3 * width), 3 * width + 1
    for start in range(0, height * stride, stride):
        above = restored(raw[start], bytearray(raw[start + 1 : start + stride]), above)
        rows.append(above)
    return width, rows


def chunks(data):
    at = len(MAGIC)
    while at < len(data):
        (size,) = struct.unpack(">I", data[at : at + 4])
        yield data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        at += 12 + size


def restored(kind, row, above):
    """A row before its filter, which says each byte as a difference from those left (a), above (b) and above left (c)."""
    for i in range(len(row) if kind else 0):
        a, b, c = (row[i - 3] if i >= 3 else 0), above[i], (above[i - 3] if i >= 3 else 0)
        row[i] = (row[i] + (0, a, b, (a + b) // 2, paeth(a, b, c))[kind]) & 255
    return row


def paeth(a, b, c):
    guess = a + b - c
    return min((abs(guess - a), 0, a), (abs(guess - b), 1, b), (abs(guess - c), 2, c))[2]
