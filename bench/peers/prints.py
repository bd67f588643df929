"""A program that stays and prints, for each item, the seven epochs of a training.

What an item prints follows from its number, so that whoever finds a line can say
whose it is. Of all lines one in twenty has loss=0.0 in it.
"""

import drover

# A thousand times the square roots of 1 to 7.
ROOTS = [1000, 1414, 1732, 2000, 2236, 2449, 2646]

for item in drover.items():
    n = int(item.value)
    for epoch, root in enumerate(ROOTS, 1):
        mixed = (n * 2654435761 + epoch * 974711) & 0xFFFFFFFF
        loss = (1500 + (mixed >> 16) * 10000 // 65536) * 1000 // root
        print(f"epoch={epoch} loss={loss // 10000}.{loss % 10000:04d} accuracy=0.{mixed & 0x3FF:04d}")
    item.done()
