"""Which points are made to fail how: all of it in a full run, a share by default."""

# What a failing call may say. The first is for every point, the second for those that take room.
FAILURES = ("EIO", "ENOSPC")
# A kill here is a kill at the end of the process, which has its own case.
DEFAULT_HITS = 1
SHARING = ("sharing", "resuming")
OF_SHARING = ("objects.", "share.", "store.checkpoint.share.", "store.checkpoint.insert.", "checkpoint.")


def hits_of(count, full):
    """The first by default; in a full run up to twelve, spread over all."""
    if not full:
        return [1]
    if count <= 12:
        return list(range(1, count + 1))
    return sorted({1 + (count - 1) * i // 11 for i in range(12)})


def actions_of(name, full):
    if name.endswith((".committed", ".done", ".published")):
        return ("kill", "hang") if full else ("kill",)  # nothing can fail any more
    return ("kill", *FAILURES, "hang") if full else ("kill", FAILURES[0])


def choose(counts, host, full):
    """(phase, point, hit, action) of a host whose phases have been counted."""
    for phase, found in counts.items():
        for number, name in enumerate(sorted(points_of(phase, found))):
            for action in actions_of(name, full):
                if not full and not is_sample(host, phase, number, action):
                    continue
                for nth in hits_of(found[name], full and action == "kill"):
                    yield phase, name, nth, action


def points_of(phase, found):
    """A life that shares is led for its own points; the others are met by any life."""
    chosen = OF_SHARING if phase in SHARING else ("",)
    return [name for name in found if name.startswith(chosen)]


def is_sample(host, phase, number, action):
    """By default: every kill of a native life, and some of everything else."""
    if phase in SHARING:
        # Before one request and behind the next: their names come in pairs.
        return action == "kill" and (number % 4 in (0, 3) if phase == "sharing" else number % 8 == 0)
    if host == "native" and phase == "life":
        return action == "kill" or number % 12 == 0
    return action == "kill" and number % (16 if host == "docker" else 6) == 0
