"""Peers that never get done with their request, beside peers that are only slow."""
import http.client
import json
import socket
import threading
import time

from mixed_output import check

HALF = 300
PATIENCE = 120
HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: "
BODY = (b"POST /v1/ptc/resolve HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: 100000\r\n\r\n")


def connect(context):
    return socket.create_connection(context.service.address, PATIENCE)


def closed(connection):
    """Whether the service has ended the connection, by now."""
    connection.settimeout(0.05)
    try:
        return connection.recv(4096) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def dribble(context, beginning, results):
    """A byte now and then, never idle for long, until the service has had enough."""
    with connect(context) as connection:
        connection.sendall(beginning)
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            if closed(connection):
                results.append(True)
                return
            try:
                connection.sendall(b"x")
            except OSError:
                results.append(True)
                return
    results.append(False)


def upload(context):
    """For longer than bodyTimeoutSeconds, but at more than the least rate."""
    body = json.dumps({"program": "return 1", "description": "d" * 3000, "bindings": []}).encode()
    with connect(context) as connection:
        head = BODY.replace(b"100000", str(len(body)).encode())
        connection.sendall(head + body[:500])
        for at in range(500, len(body), 250):
            time.sleep(0.3)
            connection.sendall(body[at:at + 250])
        return http_status(connection)


def http_status(connection):
    answer = http.client.HTTPResponse(connection)
    answer.begin()
    answer.read()
    return answer.status


def ask(connection, path="/healthz"):
    connection.request("GET", path)
    answer = connection.getresponse()
    answer.read()
    return answer.status


def huge_heads(context):
    """Refused or cut, whatever is large in it."""
    lines = {b"GET /" + b"a" * 200000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n": "target",
             b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 200000 + b"\r\n\r\n": "value",
             b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: a\r\n" * 30000 + b"\r\n": "fields"}
    for data, name in lines.items():
        with connect(context) as connection:
            try:
                connection.sendall(data)
                status = http_status(connection)
            except (OSError, http.client.HTTPException):
                continue
            check(400 <= status < 500, f"{name}: {status}")


def run(context):
    service = context.service
    config = json.loads(service.config_path.read_text())
    service.stop()
    service.write_config({**config, "headTimeoutSeconds": 2, "bodyTimeoutSeconds": 2,
                          "minBodyBytesPerSecond": 100, "idleTimeoutSeconds": 60})
    service.start()
    kept = http.client.HTTPConnection(*service.address, timeout=PATIENCE)
    stream = http.client.HTTPConnection(*service.address, timeout=PATIENCE)
    check(ask(kept) == 200, "at first")
    stream.request("GET", "/v1/events")
    follower = stream.getresponse()
    half = [connect(context) for _ in range(HALF)]
    for number, connection in enumerate(half):
        connection.sendall(HEAD if number % 2 else BODY)
    results = []
    threads = [threading.Thread(target=dribble, args=(context, beginning, results))
               for beginning in (HEAD, BODY, b"", HEAD, BODY)]
    for thread in threads:
        thread.start()
    check(context.call("GET", "/healthz").status == 200, "nobody is held up")
    check(upload(context) == 200, "slow, but not too slow")
    for thread in threads:
        thread.join()
    check(results == [True] * len(threads), results)
    for connection in half:
        connection.settimeout(PATIENCE)
        try:
            check(connection.recv(4096) == b"", "an answer to half a request")
        except ConnectionError:
            pass
        connection.close()
    check(ask(kept) == 200, "a connection that was idle for as long")
    huge_heads(context)
    check(follower.status == 200 and not follower.isclosed(), "the stream was cut")
    context.provision()
    check(b"provisioning" in follower.read1(65536), "the stream goes on")
    stream.close()
    kept.close()
