"""Idempotency keys after their 24 hours, with the clock of their rows put back: a request under one is
run as if it were the first, also where the key was bound to another request."""
import contextlib
import sqlite3

from mixed_output import check

IMAGES = ("base",)
DAY_MS = 24 * 3600 * 1000


def age(context, milliseconds):
    """Makes all keys so much older, as between two runs of the service. How many there are."""
    context.service.stop()
    path = context.directory / "service/data/exechost.db"
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        return database.execute("UPDATE idempotency_keys SET expires_at = expires_at - ?",
                                (milliseconds,)).rowcount


def run(context):
    execution = context.provision()

    def ask(script):
        return context.call("POST", f"{execution}/commands", headers={"Idempotency-Key": "daily"},
                            json={"command": "/bin/sh", "args": ["-c", script]})

    first = ask("echo one")
    check(first.status == 201, first.brief())
    check(age(context, DAY_MS - 600 * 1000) == 1, "there is not one key")
    context.service.start()
    again = ask("echo one")
    check(again.body == first.body and again.header("Idempotency-Replayed") == "true", again.brief())
    check(ask("echo two").json()["code"] == "IDEMPOTENCY_CONFLICT", "the key is forgotten")

    age(context, 600 * 1000)
    context.service.start()
    second = ask("echo two")
    check(second.status == 201 and second.header("Idempotency-Replayed") is None, second.brief())
    check(second.json()["stdout"] == "two\n", second.brief())
    kept = ask("echo two")
    check(kept.body == second.body and kept.header("Idempotency-Replayed") == "true", kept.brief())
    commands = context.call("GET", f"{execution}/commands").json()["items"]
    check(len(commands) == 2, commands)
