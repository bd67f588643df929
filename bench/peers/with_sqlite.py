"""with_sqlite.py ITEMS DATABASE: a row for each line of ITEMS in a new database, in one durable transaction."""
import os
import sqlite3
import sys


def main():
    items, database = sys.argv[1:]
    if os.path.exists(database):
        os.remove(database)
    link = sqlite3.connect(database)
    link.execute("PRAGMA synchronous = FULL")
    link.execute("CREATE TABLE items (number INTEGER PRIMARY KEY, text TEXT, state TEXT DEFAULT 'pending')")
    with link, open(items, encoding="utf-8") as lines:
        link.executemany("INSERT INTO items (text) VALUES (?)", ((line.rstrip("\n"),) for line in lines))
    link.close()


main()
