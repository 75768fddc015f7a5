"""Samples taken side by side, and what they say."""
import statistics
import time

WARM_UP = 3


def timed(action, *arguments):
    """(milliseconds, what the action returned)."""
    started = time.perf_counter()
    result = action(*arguments)
    return (time.perf_counter() - started) * 1000, result


def interleaved(samples, *sides, warm_up=WARM_UP):
    """Runs all sides in turns, the one that goes first changing each time, and drops the first rounds.
    Each is called without arguments and returns its figure. Returns a list of figures for each."""
    figures = tuple([] for _ in sides)
    for turn in range(warm_up + samples):
        for step in range(len(sides)):
            side = (turn + step) % len(sides)
            figure = sides[side]()
            if turn >= warm_up:
                figures[side].append(figure)
    return figures


def summary(figures):
    ordered = sorted(figures)
    nearest = max(0, -(-len(ordered) * 95 // 100) - 1)
    return {"median": round(statistics.median(ordered), 4), "p95": round(ordered[nearest], 4),
            "samples": [round(figure, 4) for figure in figures]}


def compared(name, what, against, unit, figures, bar):
    """A row that is a ratio of medians. `bar` None: reported only."""
    subject, baseline = (summary(side) for side in figures)
    ratio = round(subject["median"] / baseline["median"], 3)
    return {"name": name, "what": what, "against": against, "unit": unit, "subject": subject,
            "baseline": baseline, "ratio": ratio, "bar": bar, "met": bar is None or ratio <= bar}


def bounded(name, what, against, unit, figures, bar):
    """A row whose median has a bound of its own; what it is compared with is there to see."""
    row = compared(name, what, against, unit, figures, None)
    return {**row, "bound": bar, "met": row["subject"]["median"] <= bar}


def absolute(name, what, unit, figures, bar):
    """A row with a bound of its own; the largest figure has to keep it."""
    largest = round(max(figures), 2)
    return {"name": name, "what": what, "against": None, "unit": unit, "subject": summary(figures),
            "baseline": None, "ratio": None, "bar": bar, "met": largest <= bar,
            "largest": largest}


def absent(name, what, reason):
    """What this machine can't run beside the service."""
    return {"name": name, "what": what, "absent": reason, "met": True}
