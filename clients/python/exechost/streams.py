"""Events, each once and in order, through cuts and restarts."""
import time
from typing import Any, Callable, Dict, Iterator, Optional

from .errors import PROTOCOL, ExecutionHostError, unreachable
from .losslessjson import loads
from .transport import STREAM_TIMEOUT, Request, Transport

Event = Dict[str, Any]
CUT = "The stream ended before its last event."


def follow_events(transport: Transport, first: Optional[Request], resume: Callable[[int], Request],
                  last: str, after: int) -> Iterator[Event]:
    """`first` starts the stream from its beginning, `resume` goes on behind an event (-1: from the
    first). Ends behind the event of the type `last`. What stops it is an answer that no retry
    changes."""
    retries = transport.retries()
    request = first or resume(after)
    while True:
        started = time.monotonic()
        try:
            answer = transport.once(request, STREAM_TIMEOUT)
            request = resume(after)
            lines = answer.lines()
            try:
                for line in lines:
                    event = loads(line.decode())
                    number = event.get("seq")
                    if number is None or number <= after:
                        continue
                    if number != after + 1:
                        raise ExecutionHostError(
                            PROTOCOL, f"In a stream event {number} came behind {after}.")
                    retries.reset()
                    after = number
                    request = resume(after)
                    yield event
                    if event["type"] == last:
                        return
            finally:
                answer.close()
            raise unreachable(CUT)
        except ExecutionHostError as error:
            retries.next(error, started, request.last_try)
