"""The text format of Prometheus, version 0.0.4, read strictly: what a scraper or promtool would only
warn of is an error here."""
import math
import re

HELP = re.compile(r"# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+)")
TYPE = re.compile(r"# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) (counter|gauge|histogram)")
SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{([^}]*(?:\{[^}]*\}[^}]*)*)\})? (\S+)")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')
PARTS = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("",), "gauge": ("",)}


class Malformed(Exception):
    """What the format or good custom forbids."""


def require(holds, text):
    if not holds:
        raise Malformed(text)


def labels_of(text, line):
    found = {}
    at = 0
    while text and at < len(text):
        match = LABEL.match(text, at)
        require(match, f"labels of {line!r}")
        require(match.group(1) not in found, f"a label twice: {line!r}")
        found[match.group(1)] = match.group(2)
        at = match.end()
    return tuple(sorted(found.items()))


def sample_of(line, name, kind):
    match = SAMPLE.fullmatch(line)
    require(match, f"no sample: {line!r}")
    require(match.group(1) in [name + part for part in PARTS[kind]], f"{line!r} within {name}")
    value = float(match.group(3))
    require(not math.isnan(value), f"not a number: {line!r}")
    return match.group(1), labels_of(match.group(2), line), value


def parse(text):
    """{family: (kind, {(name, labels): value})}"""
    require(text.endswith("\n"), "the last line has no end")
    lines = text.split("\n")[:-1]
    families = {}
    at = 0
    while at < len(lines):
        head = HELP.fullmatch(lines[at])
        require(head and at + 1 < len(lines), f"no HELP: {lines[at]!r}")
        kind = TYPE.fullmatch(lines[at + 1])
        name = head.group(1)
        require(kind and kind.group(1) == name, f"no TYPE of {name}")
        require(name not in families, f"{name} twice")
        samples = {}
        at += 2
        while at < len(lines) and not lines[at].startswith("#"):
            sample, labels, value = sample_of(lines[at], name, kind.group(2))
            require((sample, labels) not in samples, f"twice: {lines[at]!r}")
            samples[(sample, labels)] = value
            at += 1
        check_family(name, kind.group(2), samples)
        families[name] = (kind.group(2), samples)
    return families


def check_family(name, kind, samples):
    require((kind == "counter") == name.endswith("_total"), f"{name} is a {kind}")
    if kind == "counter":
        require(all(value >= 0 for value in samples.values()), f"{name} below 0")
    if kind != "histogram":
        return
    series = {}
    for (sample, labels), value in samples.items():
        own = tuple(pair for pair in labels if pair[0] != "le")
        series.setdefault(own, []).append((sample, dict(labels).get("le"), value))
    for own, parts in series.items():
        buckets = [(float(le), value) for sample, le, value in parts if sample == name + "_bucket"]
        count = [value for sample, _, value in parts if sample == name + "_count"]
        total = [value for sample, _, value in parts if sample == name + "_sum"]
        require(len(count) == 1 and len(total) == 1, f"{name} {own}: no count or sum")
        require(buckets == sorted(buckets), f"{name} {own}: buckets not in order")
        require(buckets[-1] == (math.inf, count[0]), f"{name} {own}: the last bucket")
        require(all(a[1] <= b[1] for a, b in zip(buckets, buckets[1:])), f"{name} {own}: falls")


def value(families, name, **labels):
    """The sample of exactly those labels; 0 where there is none."""
    family = name
    for part in ("_bucket", "_sum", "_count"):
        if name.endswith(part) and name not in families:
            family = name[:-len(part)]
    return families[family][1].get((name, tuple(sorted(labels.items()))), 0)
