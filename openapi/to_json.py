#!/usr/bin/python3
"""Write openapi.yaml as JSON: to_json.py INPUT OUTPUT. The service embeds both."""
import json
import os
import sys

import yaml


class StrictLoader(yaml.SafeLoader):
    """Refuses duplicate keys, and keeps timestamps as the strings JSON needs."""

    def construct_mapping(self, node, deep=False):
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"duplicate key {key!r}", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


StrictLoader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def load(path):
    with open(path, encoding="utf-8") as file:
        return yaml.load(file, Loader=StrictLoader)


def main():
    if len(sys.argv) != 3:
        print("usage: to_json.py INPUT OUTPUT", file=sys.stderr)
        return 2
    document = load(sys.argv[1])
    partial = sys.argv[2] + ".partial"
    with open(partial, "w", encoding="utf-8") as file:
        json.dump(document, file, ensure_ascii=False, separators=(",", ":"))
        file.write("\n")
    os.replace(partial, sys.argv[2])
    return 0


if __name__ == "__main__":
    sys.exit(main())
