import assert from "node:assert/strict";
import { test } from "node:test";
import { losslessStringify, LossyValueError } from "../dist/index.js";
import { control, host } from "./fixture.mjs";

/** Runs a program that has to return; its value. */
async function valueOf(program, tools = {}, options = {}) {
  const result = await host.runProgram({ program, tools }, options);
  assert.equal(result.error, undefined, JSON.stringify(result.error));
  return result.value;
}

test("a program returns a value, its log is told as it comes", async () => {
  const seen = [];
  const result = await host.runProgram(
    { program: 'console.log("one", {a: 1}); console.error("two"); return [1, null, {x: "y"}]' },
    { onLog: (text) => seen.push(text) },
  );
  assert.deepEqual(result.value, [1, null, { x: "y" }]);
  assert.deepEqual(seen, result.logs);
  assert.equal(seen.length, 2);
  assert.ok(result.runId.startsWith("run-"));
});

test("tools answer calls, several at once", async () => {
  let waiting = 0;
  let open;
  const opened = new Promise((resolve) => (open = resolve));
  const tools = {
    host: {
      async meet(argument) {
        waiting += 1;
        if (waiting === 20) {
          open();
        }
        await opened; // all twenty are here at one time
        return argument * 2;
      },
    },
    other: { "a b": (text) => text.toUpperCase(), constructor: () => "own", nothing: () => undefined },
  };
  const program = `const met = await Promise.all(Array.from({length: 20}, (_, i) => host.meet(i)));
    return {met, a: await other["a b"]("x"), own: await other.constructor(0),
      nothing: await other.nothing(0) === undefined}`;
  assert.deepEqual(await valueOf(program, tools), {
    met: Array.from({ length: 20 }, (_, i) => i * 2),
    a: "X",
    own: "own",
    nothing: true,
  });
});

test("what a tool throws is thrown in the program, of the class that was asked for", async () => {
  const result = await host.runProgram({
    program: `try { await host.fail({}) } catch (e) {
      return [e instanceof HostError, e.name, e.member, e.message] }`,
    tools: { host: { fail: () => Promise.reject(new Error("no such thing")) } },
    errorClasses: { host: { name: "HostError", memberNameProperty: "member" } },
  });
  assert.deepEqual(result.value, [true, "HostError", "fail", "no such thing"]);
});

test("values lose nothing on either way, or are refused", async () => {
  const deep = (n) => {
    let value = null;
    for (let i = 0; i < n; i++) {
      value = [value];
    }
    return value;
  };
  const depth = (value) => {
    let n = 0;
    for (; value !== null; n++) {
      value = value[0];
    }
    return n;
  };
  const values = [
    ["\ud800", "\udfff\ud800", "\u0000", "é\u{1f600}"],
    [5e-324, 1.7976931348623157e308, 0.1, 1e21, 9007199254740993, 123456789012345680000],
    JSON.parse('{"__proto__": 1, "constructor": {"": null}}'),
  ];
  for (const value of values) {
    const back = await valueOf("return await host.echo(await host.give(0))", {
      host: { give: () => value, echo: (argument) => argument },
    });
    assert.equal(losslessStringify(back), losslessStringify(value));
  }
  const program = "return await host.echo(await host.give(0))";
  const tools = { host: { give: () => deep(100000), echo: (argument) => argument } };
  assert.equal(depth(await valueOf(program, tools)), 100000);
  const lossy = [10n, -0, NaN, { a: undefined }, new Date(), new Map(), [, 1], Symbol("s")];
  const refused = `const said = []; for (let i = 0; i < ${lossy.length}; i++) {
    try { await host.give(i); said.push("given") } catch (e) { said.push(e.message) } } return said`;
  for (const message of await valueOf(refused, { host: { give: (i) => lossy[i] } })) {
    assert.match(message, /can't carry without loss/);
  }
});

test("the client's own check of values", () => {
  const shared = { a: [1] };
  assert.equal(losslessStringify([shared, shared]), '[{"a":[1]},{"a":[1]}]');
  const cycle = {};
  cycle.self = [cycle];
  assert.throws(() => losslessStringify(cycle), LossyValueError);
  assert.throws(() => losslessStringify({ "a/b": [0, undefined] }), { path: "/a~1b/1" });
  assert.throws(() => losslessStringify(Object.assign([1], { more: 2 })), LossyValueError);
  assert.throws(() => losslessStringify({ [Symbol("s")]: 1 }), LossyValueError);
  assert.equal(losslessStringify(Object.assign(Object.create(null), { a: 1e300 })), '{"a":1e+300}');
});

test("a program's failures are results", async () => {
  assert.equal((await host.runProgram({ program: "throw new Error('x')" })).error.kind, "exception");
  const slow = await host.runProgram({ program: "await new Promise(() => {})", timeoutMs: 300 });
  assert.equal(slow.error.kind, "timeout");
  const unknown = await host.runProgram({
    program: "await host.gone()",
    tools: { host: { other: () => 1 } },
  });
  assert.equal(unknown.error.kind, "exception");
});

test("an abort is a result with its reason; the tools are told", async () => {
  const controller = new AbortController();
  let told;
  const result = await host.runProgram(
    {
      program: "await host.wait(0)",
      tools: {
        host: {
          wait: (_, { signal }) => {
            controller.abort(new Error("enough"));
            return new Promise((_resolve, reject) => {
              signal.addEventListener("abort", () => {
                told = true;
                reject(signal.reason);
              });
            });
          },
        },
      },
    },
    { signal: controller.signal },
  );
  assert.deepEqual([result.error.kind, result.error.message, told], ["abort", "enough", true]);
});

test("calls are answered once each through cuts of every connection", async () => {
  const made = [];
  const tools = {
    host: {
      async add([i, text]) {
        made.push(i);
        if (i % 10 === 0) {
          await control("cut");
        }
        return text + i;
      },
    },
  };
  const program = `const said = [];
    for (let i = 0; i < 100; i++) { said.push(await host.add([i, "x".repeat(2000)])) }
    return said.map((text) => text.length)`;
  await control("cut-after?30011");
  try {
    const lengths = await valueOf(program, tools);
    assert.deepEqual(lengths, Array.from({ length: 100 }, (_, i) => 2000 + String(i).length));
    assert.deepEqual(made, Array.from({ length: 100 }, (_, i) => i));
  } finally {
    await control("cut-after?0");
  }
});

test("a run that a kill of the service cuts is settled and never run again", async () => {
  let times = 0;
  const result = await host.runProgram({
    program: "await host.kill(0); await host.kill(0)",
    tools: {
      host: {
        async kill() {
          times += 1;
          await control("kill");
        },
      },
    },
  });
  assert.deepEqual([result.error.kind, times], ["worker-exit", 1]);
});

test("a tool that waits for one thing does not hold another", async () => {
  let release;
  const held = new Promise((resolve) => (release = resolve));
  const tools = {
    host: {
      hold: () => held,
      release: () => release("released"),
    },
  };
  const program = "const a = host.hold(0); await host.release(0); return await a";
  assert.equal(await valueOf(program, tools), "released");
});
