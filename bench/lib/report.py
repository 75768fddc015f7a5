"""The table, the file of results, and the newest table in README.md."""
import json

BEGIN = "<!-- newest table: written by script/bench -->\n"
END = "<!-- end of the table -->\n"
COLUMNS = ["row", "what", "median", "p95", "against", "median", "p95", "ratio", "bar", ""]


def number(value):
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def with_unit(side, key, unit):
    return f"{number(side[key])} {unit}"


def verdict(row):
    if row["bar"] is None and "bound" not in row:
        return "reported"
    return "met" if row["met"] else "MISSED"


def cells(row):
    subject, baseline, unit = row["subject"], row["baseline"], row["unit"]
    own = [row["name"], row["what"], with_unit(subject, "median", unit),
           with_unit(subject, "p95", unit)]
    if baseline is None:
        return own + ["", "", "", "", f"largest {number(row['largest'])} ≤ {row['bar']} {unit}",
                      verdict(row)]
    bar = f"≤ {number(row['bar'])} ×" if row["bar"] is not None else ""
    if "bound" in row:
        bar = f"median ≤ {row['bound']} {unit}"
    return own + [row["against"], with_unit(baseline, "median", unit),
                  with_unit(baseline, "p95", unit), f"{row['ratio']:.2f} ×", bar, verdict(row)]


def table(rows):
    lines = [COLUMNS, ["---"] * len(COLUMNS), *(cells(row) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def circumstances(facts):
    return (f"{facts['date']}, commit {facts['commit']}, `{facts['command']}`. {facts['cpu']}, "
            f"{facts['cores']} cores, {facts['memoryMiB']} MiB, Linux {facts['kernel']}, "
            f"Docker {facts['engine']}; fsync of 4 KiB {facts['fsyncMs']} ms; "
            f"load at the start {facts['load']:.1f}.\n")


def write_results(directory, facts, rows):
    directory.mkdir(exist_ok=True)
    path = directory / f"{facts['date']}.json"
    text = json.dumps({"facts": facts, "rows": rows}, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")
    return path


def write_readme(path, facts, rows):
    before, rest = path.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    path.write_text(f"{before}{BEGIN}\n{circumstances(facts)}\n{table(rows)}\n{END}{after}",
                    encoding="utf-8")
