"""Streams of events: lines of JSON, or server-sent events."""
import base64
import json

NDJSON = "application/x-ndjson"
SSE = "text/event-stream"
FORMATS = (NDJSON, SSE)


def parse(media_type, text):
    """The events that are whole, signs of life of lines included. ValueError for what is no event
    of that format."""
    return parse_lines(text) if media_type == NDJSON else parse_sse(text)


def parse_lines(text):
    whole = text[:text.rfind("\n") + 1]
    return [json.loads(line) for line in whole.split("\n")[:-1]]


def parse_sse(text):
    whole = text[:text.rfind("\n\n") + 2] if "\n\n" in text else ""
    events = []
    for block in whole.split("\n\n")[:-1]:
        lines = [line for line in block.split("\n") if not line.startswith(":")]
        if lines:
            events.append(sse_event(lines))
    return events


def sse_event(lines):
    fields = {}
    for line in lines:
        name, separator, value = line.partition(": ")
        if not separator or name in fields:
            raise ValueError(f"not a field, or one twice: {line[:100]!r}")
        fields[name] = value
    event = json.loads(fields["data"])
    if fields["id"] != str(event["seq"]) or fields["event"] != event["type"]:
        raise ValueError(f"id and event differ from the data: {lines}")
    return event


def transcript(events):
    """What a stream of a command's events says as a whole. ValueError where it breaks the rules of
    numbers, offsets or ends."""
    events = [event for event in events if event["type"] != "ping"]
    output = {"stdout": b"", "stderr": b""}
    starts = {}
    for event, following in zip(events, events[1:]):
        if following["seq"] != event["seq"] + 1:
            raise ValueError(f"seq {following['seq']} follows {event['seq']}")
        if event["type"] == "exit":
            raise ValueError("something follows the exit")
    for event in events:
        kind = event["type"]
        if kind in output:
            starts.setdefault(kind, event["offset"])
            if event["offset"] != starts[kind] + len(output[kind]):
                raise ValueError(f"offset {event['offset']} of seq {event['seq']}")
            output[kind] += data_of(event)
    return {"types": [event["type"] for event in events],
            "first": events[0]["seq"] if events else None,
            "stdout": output["stdout"].decode("latin-1"),
            "stderr": output["stderr"].decode("latin-1"),
            "exit": next((e["command"] for e in events if e["type"] == "exit"), None)}


def data_of(event):
    """The bytes of a piece of output. Text that a single event has is UTF-8 by itself."""
    if "data" in event:
        return event["data"].encode("utf-8")
    data = base64.b64decode(event["dataBase64"], validate=True)
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return data
    raise ValueError(f"seq {event['seq']} is UTF-8 and comes as base64")
