"""The table, the file of results, the plot, and the newest of all of them in README.md."""
import json

from lib import plot

BEGIN = "<!-- newest table: written by script/bench -->\n"
END = "<!-- end of the table -->\n"
COLUMNS = ["row", "what", "n", "median", "p95", "against", "median", "p95", "ratio", "bar", ""]


def number(value):
    if value == 0 or value >= 0.1:
        return f"{value:.2f}" if value < 10 else f"{value:.1f}"
    return f"{value:.4f}"


def with_unit(side, key, unit):
    return f"{number(side[key])} {unit}"


def verdict(row):
    if "problem" in row:
        return "FAILED"
    if "absent" in row:
        return "absent"
    if row["bar"] is None and "bound" not in row:
        return "reported"
    return "met" if row["met"] else "MISSED"


def cells(row):
    if "problem" in row:
        return [row["name"], row["what"].replace("|", "/"), *[""] * 8, verdict(row)]
    if "absent" in row:
        return [row["name"], row["what"], *[""] * 3, row["absent"], *[""] * 4, verdict(row)]
    subject, baseline, unit = row["subject"], row["baseline"], row["unit"]
    own = [row["name"], row["what"], str(len(subject["samples"])), with_unit(subject, "median", unit),
           with_unit(subject, "p95", unit)]
    if baseline is None:
        return own + ["", "", "", "", f"largest {number(row['largest'])} ≤ {row['bar']} {unit}",
                      verdict(row)]
    bar = f"≤ {number(row['bar'])} ×" if row["bar"] is not None else ""
    if "bound" in row:
        bar = f"median ≤ {row['bound']} {unit}"
    return own + [row["against"], with_unit(baseline, "median", unit),
                  with_unit(baseline, "p95", unit), f"{number(row['ratio'])} ×", bar, verdict(row)]


def table(rows):
    lines = [COLUMNS, ["---"] * len(COLUMNS), *(cells(row) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def circumstances(facts):
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    seconds = f" Took {facts['seconds']:.0f} s." if "seconds" in facts else ""
    return (f"{facts['date']}, commit {facts['commit']}, `{facts['command']}`. {facts['cpu']}, "
            f"{facts['cores']} cores, {facts['memoryMiB']} MiB, Linux {facts['kernel']}; {versions}; "
            f"fsync of 4 KiB {facts['fsyncMs']} ms; load at the start {facts['load']:.1f}.{seconds}\n")


def write_results(path, facts, rows):
    path.parent.mkdir(exist_ok=True)
    text = json.dumps({"facts": facts, "rows": rows}, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def write_plot(path, rows):
    levels = {row["name"]: row["levels"] for row in rows if "levels" in row}
    if levels:
        path.write_text(plot.growth(levels), encoding="utf-8")


def write_readme(path, facts, rows):
    before, rest = path.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    path.write_text(f"{before}{BEGIN}\n{circumstances(facts)}\n{table(rows)}\n{END}{after}",
                    encoding="utf-8")
