"""JSON that loses nothing, for the values of programs: None, booleans, numbers, strings (lone surrogates
too), lists, tuples and dictionaries with strings as keys, of any depth.

A number is an IEEE 754 double in the program: an `int` has to be one that a double holds exactly, a
`float` has to be finite and not -0.0. All else is refused, instances of subclasses too."""
import json
import json.decoder
import json.scanner
import math
import re
from typing import Any, Iterator, List, Tuple

_SPACES = " \t\r\n"
_SPACE = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_WORDS = {"null": None, "true": True, "false": False}


class LossyValueError(TypeError):
    """`path` is the JSON pointer of what can't be carried."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(f"{path or 'The value'} is {what}, which JSON can't carry without loss.")
        self.path = path


def dumps(value: Any) -> str:
    """The text of a lossless value; raises LossyValueError."""
    return _Writer().text(value)


class _Writer:
    def __init__(self) -> None:
        self.parts: List[str] = []
        # The container, what is left of it, and the key or index that is being written.
        self.stack: List[Tuple[Any, Iterator[Any], List[Any]]] = []
        self.inside: set = set()

    def text(self, value: Any) -> str:
        self.add(value)
        while self.stack:
            container, rest, at = self.stack[-1]
            try:
                key, item = next(rest)
            except StopIteration:
                self.parts.append("}" if type(container) is dict else "]")
                self.inside.discard(id(container))
                self.stack.pop()
                continue
            if at:
                self.parts.append(",")
            at[:] = [key]
            if type(container) is dict:
                if type(key) is not str:
                    raise LossyValueError(self.path(), f"a key of type {type(key).__name__}")
                self.parts.append(json.dumps(key) + ":")
            self.add(item)
        return "".join(self.parts)

    def add(self, value: Any) -> None:
        kind = type(value)
        if value is None or kind is bool or kind is str:
            self.parts.append(json.dumps(value))
        elif kind is int or kind is float:
            self.parts.append(self.number(value))
        elif kind in (list, tuple, dict):
            if id(value) in self.inside:
                raise LossyValueError(self.path(), "a cycle")
            self.inside.add(id(value))
            rest = iter(value.items()) if kind is dict else iter(enumerate(value))
            self.stack.append((value, rest, []))
            self.parts.append("{" if kind is dict else "[")
        else:
            raise LossyValueError(self.path(), f"of type {kind.__name__}")

    def number(self, value: Any) -> str:
        if type(value) is int:
            try:
                exact = int(float(value)) == value
            except OverflowError:
                exact = False
            if not exact:
                raise LossyValueError(self.path(), "an integer that no double holds")
        elif not math.isfinite(value) or (value == 0 and math.copysign(1, value) < 0):
            raise LossyValueError(self.path(), repr(value))
        return repr(value)

    def path(self) -> str:
        keys = (str(at[0]) for _, _, at in self.stack if at)
        return "".join("/" + key.replace("~", "~0").replace("/", "~1") for key in keys)


def loads(text: str) -> Any:
    """What json.loads gives, of any depth."""
    try:
        return json.loads(text)
    except RecursionError:
        return _Reader(text).value()


class _Reader:
    """Text that json.loads would take if it were not so deep; ValueError otherwise."""

    def __init__(self, text: str) -> None:
        self.source = text
        self.at = 0

    def value(self) -> Any:
        holder: List[Any] = []
        stack: List[Any] = [holder]
        keys: List[Any] = [None]
        while True:
            opened = self.item(stack, keys)
            while not opened:
                if len(stack) == 1:
                    self.space()
                    if self.at != len(self.source):
                        raise ValueError(f"more text at {self.at}")
                    return holder[0]
                opened = self.next_member(stack, keys)

    def item(self, stack: List[Any], keys: List[Any]) -> bool:
        """Reads one value into the innermost container; whether it is one that now stands open with
        something in it."""
        character = self.peek()
        if character not in "[{":
            self.put(stack, keys, self.scalar(character))
            return False
        self.at += 1
        container: Any = [] if character == "[" else {}
        self.put(stack, keys, container)
        if self.peek() == ("]" if character == "[" else "}"):
            self.at += 1
            return False
        stack.append(container)
        keys.append(self.key() if character == "{" else None)
        return True

    def next_member(self, stack: List[Any], keys: List[Any]) -> bool:
        """Behind a value: on to the next one (true), or out of the container."""
        character = self.peek()
        container = stack[-1]
        self.at += 1
        if character == ",":
            if isinstance(container, dict):
                keys[-1] = self.key()
            return True
        if character != ("}" if isinstance(container, dict) else "]"):
            raise ValueError(f"neither a comma nor an end at {self.at - 1}")
        stack.pop()
        keys.pop()
        return False

    @staticmethod
    def put(stack: List[Any], keys: List[Any], value: Any) -> None:
        if isinstance(stack[-1], dict):
            stack[-1][keys[-1]] = value
        else:
            stack[-1].append(value)

    def space(self) -> None:
        self.at = _SPACE.match(self.source, self.at).end()  # type: ignore[union-attr]

    def peek(self) -> str:
        character = self.source[self.at:self.at + 1]
        if character not in _SPACES:
            return character
        self.space()
        if self.at >= len(self.source):
            raise ValueError("the text ends early")
        return self.source[self.at]

    def string(self) -> str:
        text, self.at = json.decoder.scanstring(self.source, self.at + 1)  # type: ignore
        return text

    def key(self) -> str:
        if self.peek() != '"':
            raise ValueError(f"no key at {self.at}")
        name = self.string()
        if self.peek() != ":":
            raise ValueError(f"no colon at {self.at}")
        self.at += 1
        return name

    def scalar(self, character: str) -> Any:
        if character == '"':
            return self.string()
        for word, value in _WORDS.items():
            if self.source.startswith(word, self.at):
                self.at += len(word)
                return value
        found = _NUMBER.match(self.source, self.at)
        if not found:
            raise ValueError(f"no value at {self.at}")
        self.at = found.end()
        return float(found.group()) if found.group(1) or found.group(2) else int(found.group())
