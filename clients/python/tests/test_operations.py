import os
import socket
import tempfile
import threading
import time

from fixture import REQUEST, URL, Case, control, shell

from exechost import Abort, Aborted, ExecutionHostError, HttpExecutionHost, Retry


class Operations(Case):
    def test_lifecycle(self):
        execution = self.host.provision({**REQUEST, "labels": {"made": "here"}})
        self.assertEqual((execution["state"], execution["labels"]), ("provisioned", {"made": "here"}))
        first = execution["executionId"]
        command = self.host.exec(first, shell("cat > f; echo out; echo err >&2; exit 7", stdin="x"))
        self.assertEqual((command["exitCode"], command["stdout"], command["stderr"]),
                         (7, "out\n", "err\n"))
        checkpoint = self.host.checkpoint(first, {"metadata": {"step": 1}})
        self.addCleanup(self.host.delete_checkpoint, checkpoint["checkpointId"])
        self.assertEqual(checkpoint["sourceExecutionId"], first)
        self.host.terminate(first)
        self.host.terminate(first)
        self.assertEqual(self.host.execution(first)["termination"]["reason"], "terminated")
        second = self.host.restore(checkpoint["checkpointId"])["executionId"]
        self.addCleanup(self.host.terminate, second)
        self.assertEqual(self.host.exec(second, {"command": "cat", "args": ["f"]})["stdout"], "x")
        self.host.reclaim(second)
        self.assertEqual(self.host.execution(second)["termination"]["reason"], "reclaimed")

    def test_files(self):
        execution = self.provision()
        data = bytes(i % 251 for i in range(70000))
        self.host.write_file(execution, "a b/ü&?.bin", data, mode="0600")
        self.assertEqual(self.host.read_file(execution, "a b/ü&?.bin"), data)

    def test_refusals(self):
        execution = self.provision()
        host = self.host
        self.refused("EXECUTION_INVALID_REQUEST", lambda: host.provision({**REQUEST, "image": "base"}),
                     status=400, retryable=False, field="/image", phase="validate")
        self.refused("EXECUTION_NETWORK_POLICY",
                     lambda: host.provision({**REQUEST, "network": None}), status=422)
        self.refused("EXECUTION_ALREADY_EXISTS",
                     lambda: host.provision({**REQUEST, "executionId": execution}), status=409)
        self.refused("EXECUTION_INVALID_REQUEST",
                     lambda: host.exec(execution, {"command": "x", "timeoutMs": 0}),
                     field="/timeoutMs")
        self.refused("EXECUTION_NOT_FOUND", lambda: host.exec("nothing-here", {"command": "x"}),
                     status=404, field=None)
        self.refused("EXECUTION_CHECKPOINT_NOT_FOUND", lambda: host.restore("nothing-here"))
        self.refused("PTC_INVALID_REQUEST",
                     lambda: host.run_program({"program": "", "description": " "}),
                     field="/description")

    def test_fencing(self):
        owned = {**REQUEST, "owner": {"ownerId": "worker", "fencingToken": 7}}
        execution = self.host.provision(owned)["executionId"]
        self.addCleanup(self.host.terminate, execution, fencing_token=7)
        self.refused("OWNER_FENCED", lambda: self.host.exec(execution, {"command": "true"},
                                                            fencing_token=6), status=409)
        old = HttpExecutionHost(URL, fencing_token=5)
        self.addCleanup(old.transport.close)
        self.refused("OWNER_FENCED", lambda: old.terminate(execution))

    def test_limits_are_results(self):
        slow = self.host.exec(self.provision(), shell("sleep 600", timeoutMs=200))
        self.assertEqual(slow["termination"]["code"], "EXECUTION_TIMEOUT")
        resources = {**REQUEST["resources"], "maxOutputBytes": 1000}
        loud = self.host.exec(self.provision(resources=resources), shell("yes"))
        self.assertEqual((loud["termination"]["code"], len(loud["stdout"])),
                         ("EXECUTION_OUTPUT_LIMIT", 1000))

    def test_unreachable(self):
        gone = HttpExecutionHost("http://127.0.0.1:9", retry=Retry(budget=0.1, min_delay=0.01))
        self.refused("CLIENT_UNREACHABLE", lambda: gone.terminate("x"), status=0, retryable=True)


class Aborts(Case):
    def test_before(self):
        abort = Abort()
        abort.abort("no longer wanted")
        for call in (lambda: self.host.provision({**REQUEST, "executionId": "never"}, abort=abort),
                     lambda: self.host.exec("never", {"command": "true"}, abort=abort),
                     lambda: list(self.host.exec_stream("never", {"command": "x"}, abort=abort)),
                     lambda: self.host.run_program({"program": "return 1"}, abort=abort)):
            with self.assertRaisesRegex(Aborted, "no longer wanted"):
                call()
        self.refused("EXECUTION_NOT_FOUND", lambda: self.host.execution("never"))

    def test_command(self):
        execution = self.provision()
        abort = Abort()

        def end():
            self.wait_for_output(execution, "ended", "begun\n")
            abort.abort()

        thread = threading.Thread(target=end)
        thread.start()
        command = self.host.exec(execution, shell("echo begun; sleep 600", commandId="ended"),
                                 abort=abort)
        thread.join()
        self.assertEqual((command["termination"]["reason"], command["stdout"]),
                         ("aborted", "begun\n"))
        self.assertEqual(self.host.execution(execution)["termination"]["reason"], "aborted")

    def test_provision_and_restore(self):
        checkpoint = self.host.checkpoint(self.provision())["checkpointId"]
        self.addCleanup(self.host.delete_checkpoint, checkpoint)
        for number in range(10):
            name = f"python-aborted-{number}"
            abort = Abort()
            timer = threading.Timer(number * 0.004, abort.abort)
            timer.start()
            try:
                if number % 2:
                    self.host.provision({**REQUEST, "executionId": name}, abort=abort)
                else:
                    self.host.restore(checkpoint, {"executionId": name}, abort=abort)
                self.host.terminate(name)  # it had come to its end before
            except Aborted:
                pass
            timer.join()
            try:
                self.assertNotEqual(self.host.execution(name)["state"], "provisioned")
            except ExecutionHostError as error:
                self.assertEqual(error.code, "EXECUTION_NOT_FOUND")

    def test_checkpoint(self):
        execution = self.provision()
        abort = Abort()
        self.host.checkpoint(execution, {"checkpointId": "python-kept"}, abort=abort)
        self.host.delete_checkpoint("python-kept")
        timer = threading.Timer(0, abort.abort)
        timer.start()
        try:
            self.host.checkpoint(execution, {"checkpointId": "python-unwanted"}, abort=abort)
            self.host.delete_checkpoint("python-unwanted")
        except Aborted:
            pass
        timer.join()
        self.refused("EXECUTION_CHECKPOINT_NOT_FOUND",
                     lambda: self.host.restore("python-unwanted"))


class Losses(Case):
    def test_lost_answer(self):
        execution = self.provision()
        control("cut-after?40")
        # The first answers are cut within their headers.
        opener = threading.Timer(0.5, control, ["cut-after?0"])
        opener.start()
        host = HttpExecutionHost(URL)  # without a connection from before
        self.addCleanup(host.transport.close)
        self.assertEqual(host.exec(execution, shell("echo once >> runs"))["exitCode"], 0)
        opener.join()
        self.assertEqual(self.host.read_file(execution, "runs"), b"once\n")

    def test_killed_service(self):
        execution = self.provision()
        script = "echo begun; until [ -e go ]; do sleep 0.05; done; echo done"

        def kill():
            self.wait_for_output(execution, "through-a-kill", "begun\n")
            control("kill")
            self.host.write_file(execution, "go", b"")

        thread = threading.Thread(target=kill)
        thread.start()
        command = self.host.exec(execution, shell(script, commandId="through-a-kill"))
        thread.join()
        self.assertEqual((command["exitCode"], command["stdout"]), (0, "begun\ndone\n"))

    def test_idle_connection_that_was_closed(self):
        """A client keeps connections, which end when the service does."""
        execution = self.provision()
        control("cut")
        self.assertEqual(self.host.exec(execution, {"command": "true"})["exitCode"], 0)

    def test_unix_socket(self):
        """Through a socket file that leads to the service."""
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "socket")
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(path)
            listener.listen()

            def serve():
                connection, _ = listener.accept()
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
                connection.close()

            thread = threading.Thread(target=serve)
            thread.start()
            HttpExecutionHost(f"unix:{path}").terminate("x")
            thread.join()
            listener.close()

    def test_retry_after(self):
        """A service that is busy once, and says for how long."""
        listener = socket.create_server(("127.0.0.1", 0))
        body = (b'{"type":"about:blank","title":"t","status":503,"detail":"busy","code":"OVERLOADED",'
                b'"retryable":true,"requestId":"r"}')

        def serve():
            for answer in (b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: "
                           + str(len(body)).encode() + b"\r\nConnection: close\r\n\r\n" + body,
                           b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"):
                connection, _ = listener.accept()
                connection.recv(65536)
                connection.sendall(answer)
                connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        started = time.monotonic()
        HttpExecutionHost(f"http://127.0.0.1:{listener.getsockname()[1]}").terminate("x")
        self.assertGreaterEqual(time.monotonic() - started, 1)
        thread.join()
        listener.close()
