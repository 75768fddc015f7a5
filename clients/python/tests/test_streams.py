import threading

from fixture import Case, control, shell

from exechost import Abort, output_of

# Every number from 1 on, in lines of both streams, with bytes that are no UTF-8 between.
COUNTING = """i=0
while [ $i -lt 3000 ]; do
  i=$((i+1)); echo $i; printf '\\377%s\\303\\n' $i >&2
done
while [ ! -e go ]; do sleep 0.05; done
while [ $i -lt 4000 ]; do i=$((i+1)); echo $i; done"""
STDOUT = b"".join(b"%d\n" % i for i in range(1, 4001))
STDERR = b"".join(b"\xff%d\xc3\n" % i for i in range(1, 3001))


class Streams(Case):
    def collect(self, events, on_event=lambda event: None):
        output = {"stdout": b"", "stderr": b""}
        event = None
        for number, event in enumerate(events):
            self.assertEqual(event["seq"], number)
            if event["type"] in output:
                output[event["type"]] += output_of(event)
            on_event(event)
        self.assertEqual(event["type"], "exit")
        return output["stdout"], output["stderr"], event["command"]

    def check_complete(self, collected):
        stdout, stderr, command = collected
        self.assertEqual(command["exitCode"], 0)
        self.assertTrue(stdout == STDOUT, "stdout")
        self.assertTrue(stderr == STDERR, "stderr")

    def test_whole(self):
        execution = self.provision()
        self.host.write_file(execution, "go", b"")
        self.check_complete(self.collect(self.host.exec_stream(execution, shell(COUNTING))))

    def test_cuts(self):
        execution = self.provision()
        self.host.write_file(execution, "go", b"")
        for size in (1, 300, 997, 20011):
            control(f"cut-after?{size}")
            # What can't get through so narrow a gap gets through when it is opened wide.
            opener = threading.Timer(0.3 if size < 997 else 2, control, ["cut-after?0"])
            opener.start()
            request = shell(COUNTING, commandId=f"cut-{size}")
            self.check_complete(self.collect(self.host.exec_stream(execution, request)))
            opener.cancel()
            opener.join()
            control("cut-after?0")
            self.check_complete(self.collect(self.host.follow(execution, f"cut-{size}")))

    def through(self, how):
        execution = self.provision()
        done = []

        def on_event(event):
            if not done and event["type"] == "stdout":
                done.append(how)
                control(how)
                self.host.write_file(execution, "go", b"")

        events = self.host.exec_stream(execution, shell(COUNTING))
        self.check_complete(self.collect(events, on_event))

    def test_kill(self):
        self.through("kill")

    def test_restart(self):
        self.through("restart")

    def test_follow_from(self):
        execution = self.provision()
        request = shell("echo a; sleep 0.3; echo b", commandId="behind")
        events = list(self.host.exec_stream(execution, request))
        self.assertEqual(list(self.host.follow(execution, "behind", after=1)), events[2:])

    def test_leave(self):
        execution = self.provision()
        request = shell("echo begun; cat; echo ended", commandId="left", stdinOpen=True)
        events = self.host.exec_stream(execution, request)
        while next(events)["type"] != "stdout":
            pass
        events.close()
        self.assertEqual(self.host.command(execution, "left")["state"], "running")
        self.host.write_stdin(execution, "left", "more\n", eof=True)
        command = self.host.command(execution, "left", wait_ms=60000)
        self.assertEqual(command["stdout"], "begun\nmore\nended\n")

    def test_abort(self):
        abort = Abort()
        events = self.host.exec_stream(self.provision(), shell("echo begun; sleep 600"), abort=abort)
        _, _, command = self.collect(
            events, lambda event: abort.abort() if event["type"] == "stdout" else None)
        self.assertEqual(command["termination"]["reason"], "aborted")

    def test_signal(self):
        execution = self.provision()
        script = "trap 'echo caught; exit 3' INT; echo ready; while :; do sleep 0.05; done"

        def on_event(event):
            if event.get("data") == "ready\n":
                self.host.signal(execution, "trapped", "SIGINT")

        events = self.host.exec_stream(execution, shell(script, commandId="trapped"))
        stdout, _, command = self.collect(events, on_event)
        self.assertEqual((stdout, command["exitCode"]), (b"ready\ncaught\n", 3))
