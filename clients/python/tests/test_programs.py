import threading

from fixture import Case, control

from exechost import NO_VALUE, Abort, LossyValueError, dumps, loads, with_context


def deep(depth):
    value = None
    for _ in range(depth):
        value = [value]
    return value


def depth_of(value):
    depth = 0
    while value is not None:
        value = value[0]
        depth += 1
    return depth


class Programs(Case):
    def value_of(self, program, tools=None):
        result = self.host.run_program({"program": program}, tools or {})
        self.assertNotIn("error", result)
        return result.get("value", NO_VALUE)

    def test_value_and_log(self):
        seen = []
        program = 'console.log("one", {a: 1}); console.error("two"); return [1, null, {x: "y"}]'
        result = self.host.run_program({"program": program}, on_log=seen.append)
        self.assertEqual(result["value"], [1, None, {"x": "y"}])
        self.assertEqual((len(seen), seen), (2, result["logs"]))
        self.assertIs(self.value_of(""), NO_VALUE)

    def test_tools_at_once(self):
        barrier = threading.Barrier(20)

        def meet(argument):
            barrier.wait(300)  # all twenty are here at one time
            return argument * 2

        tools = {"host": {"meet": meet},
                 "other": {"a b": str.upper, "constructor": lambda _: "own",
                           "nothing": lambda _: NO_VALUE}}
        program = """const met = await Promise.all(Array.from({length: 20}, (_, i) => host.meet(i)));
            return {met, a: await other["a b"]("x"), own: await other.constructor(0),
              nothing: await other.nothing(0) === undefined}"""
        self.assertEqual(self.value_of(program, tools),
                         {"met": [i * 2 for i in range(20)], "a": "X", "own": "own",
                          "nothing": True})

    def test_tool_raises(self):
        def fail(_):
            raise ValueError("no such thing")

        program = """try { await host.fail({}) } catch (e) {
            return [e instanceof HostError, e.name, e.member, e.message] }"""
        result = self.host.run_program(
            {"program": program}, {"host": {"fail": fail}},
            error_classes={"host": {"name": "HostError", "memberNameProperty": "member"}})
        self.assertEqual(result["value"], [True, "HostError", "fail", "no such thing"])

    def test_lossless(self):
        values = [["\ud800", "\udfff\ud800", "\0", "é\U0001f600"],
                  [5e-324, 1.7976931348623157e308, 0.1, 1e21, 2 ** 53, 10 ** 20, True, None],
                  {"__proto__": 1, "constructor": {"": None}}]
        program = "return await host.echo(await host.give(0))"
        for value in values:
            tools = {"host": {"give": lambda _, value=value: value, "echo": lambda value: value}}
            self.assertEqual(self.value_of(program, tools), value)
        tools = {"host": {"give": lambda _: deep(100000), "echo": lambda value: value}}
        self.assertEqual(depth_of(self.value_of(program, tools)), 100000)

    def test_lossy(self):
        lossy = [-0.0, float("nan"), float("inf"), 2 ** 53 + 1, 10 ** 400, {1: 2}, {1, 2}, b"x",
                 object(), 1j]
        program = f"""const said = []; for (let i = 0; i < {len(lossy)}; i++) {{
            try {{ await host.give(i); said.push("given") }} catch (e) {{ said.push(e.message) }} }}
            return said"""
        for message in self.value_of(program, {"host": {"give": lambda i: lossy[i]}}):
            self.assertRegex(message, "can't carry without loss")

    def test_failures_are_results(self):
        def kind(program, **more):
            return self.host.run_program({"program": program, **more})["error"]["kind"]

        self.assertEqual(kind("throw new Error('x')"), "exception")
        self.assertEqual(kind("await new Promise(() => {})", timeoutMs=300), "timeout")

    def test_abort(self):
        abort = Abort()
        told = threading.Event()

        @with_context
        def wait(_, context):
            abort.abort("enough")
            context.cancelled.wait(300)
            told.set()

        result = self.host.run_program({"program": "await host.wait(0)"}, {"host": {"wait": wait}},
                                       abort=abort)
        self.assertEqual((result["error"]["kind"], result["error"]["message"]), ("abort", "enough"))
        self.assertTrue(told.wait(300))

    def test_cuts(self):
        made = []

        def add(argument):
            made.append(argument[0])
            if argument[0] % 10 == 0:
                control("cut")
            return argument[1] + str(argument[0])

        program = """const said = [];
            for (let i = 0; i < 100; i++) { said.push(await host.add([i, "x".repeat(2000)])) }
            return said.map((text) => text.length)"""
        control("cut-after?30011")
        try:
            lengths = self.value_of(program, {"host": {"add": add}})
        finally:
            control("cut-after?0")
        self.assertEqual(lengths, [2000 + len(str(i)) for i in range(100)])
        self.assertEqual(made, list(range(100)))

    def test_kill(self):
        times = []

        def kill(_):
            times.append(1)
            control("kill")

        result = self.host.run_program({"program": "await host.kill(0); await host.kill(0)"},
                                       {"host": {"kill": kill}})
        self.assertEqual((result["error"]["kind"], len(times)), ("worker-exit", 1))


class Json(Case):
    def test_text_and_back(self):
        shared = {"a": [1, 2.5]}
        for value in (None, True, [], {}, [[], {}], [shared, shared], (1, "é\n"), {"": [0]},
                      {"a": {"b": [1, {"c": "\ud800"}]}}):
            text = dumps(value)
            self.assertEqual(loads(text), list(value) if isinstance(value, tuple) else value)

    def test_deep(self):
        text = '{"a": [' * 50000 + '1, {"x": -2.5e3, "y": [true, "\\u00e9"]}' + " ] } " * 50000
        value = loads(text)
        self.assertEqual(loads(dumps(deep(100000)).replace("[", "").replace("]", "")), None)
        for _ in range(50000):
            value = value["a"][0] if len(value["a"]) == 1 else value["a"]
        self.assertEqual(value, [1, {"x": -2500.0, "y": [True, "é"]}])

    def test_bad_deep_text(self):
        opened = "[" * 100000
        for bad in ("", "]" * 100001, "1 2", '{"a" 1}', "{1: 2}", "[1}", "nul", '"'):
            with self.assertRaises(ValueError):
                loads(opened + bad)

    def test_paths(self):
        cycle = {}
        cycle["a"] = [0, cycle]
        for value, path in ((cycle, "/a/1"), ({"a/b~": [1, -0.0]}, "/a~1b~0/1"), (b"", "")):
            with self.assertRaises(LossyValueError) as caught:
                dumps(value)
            self.assertEqual(caught.exception.path, path)
