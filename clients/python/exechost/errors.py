"""What the service refused, and what could not be asked."""
import json
from typing import Any, Dict, List, Optional

UNREACHABLE = "CLIENT_UNREACHABLE"
PROTOCOL = "CLIENT_PROTOCOL"


class ExecutionHostError(Exception):
    """The fields of a problem document. Two codes are the client's own: `CLIENT_UNREACHABLE` where no
    answer was to be had in time, `CLIENT_PROTOCOL` where what answered does not speak this interface;
    `status` is 0 where there was no answer."""

    def __init__(self, code: str, detail: str, status: int = 0, retryable: bool = False,
                 field: Optional[str] = None, phase: Optional[str] = None,
                 causes: Optional[List[Dict[str, str]]] = None,
                 request_id: Optional[str] = None) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail
        self.status = status
        self.retryable = retryable
        self.field = field
        self.phase = phase
        self.causes = causes or []
        self.request_id = request_id
        self.retry_after = 0.0
        """Seconds, as `Retry-After` said."""


def unreachable(what: str) -> ExecutionHostError:
    return ExecutionHostError(UNREACHABLE, what, retryable=True)


def error_of(status: int, body: bytes) -> ExecutionHostError:
    """The error that an answer of 400 or more says."""
    try:
        problem: Any = json.loads(body)
        code, detail = problem["code"], problem["detail"]
    except (ValueError, KeyError, TypeError):
        # Proxies, and the service before a request is parsed, answer in other words.
        return ExecutionHostError(PROTOCOL, f"The answer is {status} without a problem document.",
                                  status)
    return ExecutionHostError(code, detail, status, problem.get("retryable", False),
                              problem.get("field"), problem.get("phase"), problem.get("causes"),
                              problem.get("requestId"))
