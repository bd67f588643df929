"""A module from beside the code folder: it comes along because -d names its folder."""


def score(shorn, flock):
    return 100.0 * shorn / flock
