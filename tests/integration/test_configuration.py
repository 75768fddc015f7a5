"""docs/configuration.md against what the service takes: the same keys, defaults, ranges, limits."""
import json
import re
import subprocess

from context import ROOT, Failure

PAGE = ROOT / "docs/configuration.md"
HOSTS = ("native",)  # the same on every host
IMAGES = ("base",)
HELP = re.compile(r"^  ([a-z]\w*(?:\.\w+)?) +(\S+) +(.*)$")
RANGE = re.compile(r" \((\d+)\.\.(\d+)\)$")
# What is no single value, each with one that can't be it.
OBJECTS = {"tokens": "x", "corsOrigins": ["x"], "gitRoots": [], "ptc.workspaceRoots": []}
RESOURCES = ("cpus", "memoryBytes", "diskBytes", "pids", "runtimeMs", "maxOutputBytes")


def keys_of_parser(binary):
    """{key: (default, range)}: the help is made from the parser's table."""
    text = subprocess.run([binary, "serve", "--help"], stdin=subprocess.DEVNULL, check=True,
                          stdout=subprocess.PIPE, timeout=120).stdout.decode()
    found = {}
    for name, default, what in (match.groups() for match in map(HELP.match, text.splitlines())
                                if match):
        bounds = RANGE.search(what)
        found[name] = ("none" if default == "-" else default,
                       "–".join(bounds.groups()) if bounds else "")
    return found


def rows_of(section_wanted):
    """The cells of each row of the tables in the sections for which `section_wanted` holds."""
    section = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            section = line[3:]
        elif line.startswith("| ") and not re.match(r"\| (---|key|what) ", line) and \
                section_wanted(section):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def keys_of_page():
    found = {}
    for name, default, bounds, *_ in rows_of(lambda section: section != "Limits of a request"):
        if name.strip("`") in found:
            raise Failure(f"{name} is there twice")
        found[name.strip("`")] = (default.strip("`"), bounds)
    return found


def check_keys(binary):
    parser, page = keys_of_parser(binary), keys_of_page()
    if len(parser) < 50:
        raise Failure(f"only {len(parser)} keys in the help")
    for name in sorted(parser.keys() | page.keys()):
        if parser.get(name) != page.get(name):
            raise Failure(f"{name}: {parser.get(name)} of the parser, {page.get(name)} of the page")
    return page


def answer_to(context, configuration):
    """What a start says to it; what does not start a service reads it just as well."""
    path = context.directory / "page.json"
    path.write_text(json.dumps(configuration), encoding="utf-8")
    done = subprocess.run([context.binary, "image", "list", "--host", "native", "--config", path],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=120, check=False)
    return done.returncode, done.stdout.decode("utf-8", "replace")


def put(configuration, name, value):
    *section, key = name.split(".")
    for part in section:
        configuration = configuration.setdefault(part, {})
    configuration[key] = value


def check_parser(context, page):
    """All defaults at once are taken; what is no single value is known, what is unknown refused."""
    defaults = {"native": {"images": str(context.directory / "images")}}
    for name, (default, bounds) in page.items():
        if default != "none":
            number = bounds or default in ("true", "false", "[]", "{}")
            put(defaults, name, json.loads(default) if number else default)
    status, said = answer_to(context, defaults)
    if status != 0:
        raise Failure(f"the defaults are refused: {said}")
    for name, value in OBJECTS.items():
        wrong = {}
        put(wrong, name, value)
        status, said = answer_to(context, wrong)
        if status == 0 or name not in said or "is not a configuration key" in said:
            raise Failure(f"{name}: {status} {said}")
    status, said = answer_to(context, {"notThere": 1})
    if status == 0 or '"notThere" is not a configuration key' not in said:
        raise Failure(f"an unknown key: {status} {said}")


def check_resources(context):
    """The page's ranges are in the words of the refusals."""
    limits = {name: bounds for cells in rows_of(lambda section: section == "Limits of a request")
              for names, bounds in [cells[:2]] for name in re.findall(r"`([A-Za-z]+)`", names)}
    good = {"cpus": 1, "memoryBytes": 1 << 28, "diskBytes": 1 << 26, "pids": 64,
            "runtimeMs": 60000, "maxOutputBytes": 1 << 20}
    for name in RESOURCES:
        answer = context.call("POST", "/v1/executions", json={
            "image": context.images["base"]["id"], "workspace": {"kind": "empty"},
            "network": {"mode": "none"}, "resources": {**good, name: 2 ** 53 - 1}})
        said = re.search(r"must be (?:from (\d+) to|above (0) and at most) (\d+)",
                         answer.json()["detail"])
        if answer.status != 422 or not said:
            raise Failure(f"{name}: {answer.status} {answer.json()}")
        for number in said.groups():
            if number not in (None, "1") and not re.search(rf"\b{number}\b", limits[name]):
                raise Failure(f"{name}: {said.group()}, but the page has {limits[name]}")


def run(context):
    check_parser(context, check_keys(context.binary))
    check_resources(context)
