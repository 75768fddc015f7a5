"""Reads the rows, spreads those with cases, and refuses what is not a row."""
import json


KEYS = {"id", "anchor", "promise", "steps", "hosts", "vars", "exclusive", "needs", "service",
        "cases", "only", "seconds", "anyHost"}
FIRST_HOST = "docker"
NOT_TABLES = {"templates.json", "config.json"}


class BadTable(Exception):
    """A file that is not a list of rows."""


def load(directory, host, all_rows=True):
    """Those of the host. A row that is the same on any host (`anyHost`) is run with the first
    only, unless all are asked for."""
    rows, seen = [], set()
    for path in sorted(directory.glob("*.json")):
        if path.name in NOT_TABLES:
            continue
        for row in json.loads(path.read_text(encoding="utf-8")):
            check(path, row)
            for item in spread(row):
                if item["id"] in seen:
                    raise BadTable(f"{path.name}: {item['id']} is there twice")
                seen.add(item["id"])
                elsewhere = item.get("anyHost") and host != FIRST_HOST and not all_rows
                if host in item.get("only", [host]) and not elsewhere:
                    rows.append(item)
    return rows


def check(path, row):
    unknown = set(row) - KEYS
    missing = {"id", "anchor", "promise", "steps"} - set(row)
    if unknown or missing:
        raise BadTable(f"{path.name}: {row.get('id')}: unknown {sorted(unknown)}, "
                       f"missing {sorted(missing)}")


def spread(row):
    """A row with `cases` {name: {variable: value}} becomes one row for each."""
    if "cases" not in row:
        return [row]
    result = []
    for name, variables in row["cases"].items():
        item = {key: value for key, value in row.items() if key != "cases"}
        item["id"] = f"{row['id']}[{name}]"
        item["vars"] = {**row.get("vars", {}), **variables}
        result.append(item)
    return result
