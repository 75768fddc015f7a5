"""How the tables are laid out: what fits a line stands on one, the rest is broken up."""
import json
import re

WIDTH = 100
# Half of a pair is no text that a file can hold as it is.
LONE = re.compile("[\ud800-\udfff]")


def laid_out(value, indent=0):
    flat = json.dumps(value, ensure_ascii=False)
    if len(flat) + indent <= WIDTH or not isinstance(value, (dict, list)) or not value:
        return flat
    pad = " " * (indent + 2)
    if isinstance(value, dict):
        items = [f"{json.dumps(key, ensure_ascii=False)}: "
                 f"{laid_out(item, indent + 2)}" for key, item in value.items()]
        opening, closing = "{", "}"
    else:
        items = [laid_out(item, indent + 2) for item in value]
        opening, closing = "[", "]"
    return f"{opening}\n{pad}" + f",\n{pad}".join(items) + f"\n{' ' * indent}{closing}"


def rewrite(directory):
    for path in sorted(directory.glob("*.json")):
        text = laid_out(json.loads(path.read_text(encoding="utf-8"))) + "\n"
        text = LONE.sub(lambda found: f"\\u{ord(found.group()):04x}", text)
        if text != path.read_text(encoding="utf-8"):
            path.write_text(text, encoding="utf-8")
