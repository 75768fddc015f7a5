"""Makes the operations of the conformance table by this client: see tests/conformance/lib/bridge.py."""
import json
import pathlib
import sys
import threading
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from exechost import ExecutionHostError, HttpExecutionHost, Retry  # noqa: E402

WRITING = threading.Lock()


def watch(host, exchanges):
    """Has every exchange of the host seen: status, headers and body as they came."""
    transport = host.transport
    take = transport._open

    def open_seen():
        connection = take()
        plain = connection.getresponse

        def getresponse():
            response = plain()
            read = response.read

            def read_seen():
                data = read()
                exchanges.append({"status": response.status, "headers": response.getheaders(),
                                  "body": data.decode("utf-8", "surrogatepass")})
                return data

            response.read = read_seen
            return response

        connection.getresponse = getresponse
        return connection

    transport._open = open_seen


def call(host, request):
    name, target = request["operation"], request["target"]
    options = {"fencing_token": request["fencingToken"]}
    if name != "terminate":
        options["idempotency_key"] = request["idempotencyKey"]
    if name == "provision":
        return host.provision(request["request"], **options)
    if name in ("terminate", "reclaim"):
        return getattr(host, name)(target, **options)
    return getattr(host, name)(target, request["request"], **options)


def problem_of(error, exchange):
    """What the client made of a refusal has to be what the answer says."""
    problem = json.loads(exchange["body"])
    names = {"code": "code", "retryable": "retryable", "field": "field", "status": "status",
             "phase": "phase", "requestId": "request_id"}
    wrong = [name for name, own in names.items() if getattr(error, own) != problem.get(name)]
    if error.causes != problem.get("causes", []):
        wrong.append("causes")
    return f"the error differs in {wrong}" if wrong else None


def answer(request):
    exchanges = []
    host = HttpExecutionHost(request["baseUrl"], request["token"], retry=Retry(budget=0))
    watch(host, exchanges)
    result = error = None
    try:
        result = call(host, request)
    except ExecutionHostError as caught:
        error = caught
    finally:
        host.transport.close()
    if len(exchanges) != 1:
        return {"problem": f"{len(exchanges)} exchanges; {error}"}
    exchange = exchanges[0]
    if error:
        return {**exchange, "problem": problem_of(error, exchange)}
    said = json.loads(exchange["body"]) if exchange["body"] else None
    same = said == result and exchange["status"] < 300
    return {**exchange, "problem": None if same else "the result differs"}


def work(request):
    try:
        found = answer(request)
    except Exception:  # the runner tells it
        found = {"problem": traceback.format_exc()}
    line = json.dumps({"id": request["id"], **found}) + "\n"
    with WRITING:
        sys.stdout.write(line)
        sys.stdout.flush()


for request_line in sys.stdin:
    threading.Thread(target=work, args=(json.loads(request_line),)).start()
