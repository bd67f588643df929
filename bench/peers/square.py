import drover

for item in drover.items():
    item.done(int(item.value) ** 2)
