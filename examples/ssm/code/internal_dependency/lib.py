"""A module of the worker's own: it comes along, as all of the code folder does."""


def initials(name):
    return "".join(word[0] for word in name.split())
