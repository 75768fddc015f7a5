"""Client of exechost: isolated, bounded execution environments over HTTP.

    host = HttpExecutionHost("http://127.0.0.1:8470")
    execution = host.provision({...})
    command = host.exec(execution["executionId"], {"command": "true"})
"""
from .abort import Abort, Aborted
from .errors import ExecutionHostError
from .host import HttpExecutionHost, output_of
from .losslessjson import LossyValueError, dumps, loads
from .program import NO_VALUE, ToolContext, with_context
from .transport import Retry, Transport

__all__ = [
    "Abort", "Aborted", "ExecutionHostError", "HttpExecutionHost", "LossyValueError", "NO_VALUE",
    "Retry", "ToolContext", "Transport", "dumps", "loads", "output_of", "with_context",
]
