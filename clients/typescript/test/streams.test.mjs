import assert from "node:assert/strict";
import { test } from "node:test";
import { outputOf } from "../dist/index.js";
import { control, host, provision, shell } from "./fixture.mjs";

// Every number from 1 on, in lines of both streams, with bytes that are no UTF-8 between.
const COUNTING = `i=0
while [ $i -lt 3000 ]; do
  i=$((i+1)); echo $i; printf '\\377%s\\303\\n' $i >&2
done
while [ ! -e go ]; do sleep 0.05; done
while [ $i -lt 4000 ]; do i=$((i+1)); echo $i; done`;

function expected(stream) {
  const lines = [];
  for (let i = 1; i <= (stream === "stdout" ? 4000 : 3000); i++) {
    const text = stream === "stdout" ? `${i}` : `\xff${i}\xc3`;
    lines.push(`${text}\n`);
  }
  return Buffer.from(lines.join(""), "latin1");
}

/** Collects the output of a stream of events and what else it says. */
async function collect(events, onEvent = () => undefined) {
  const output = { stdout: [], stderr: [] };
  let last;
  let count = 0;
  for await (const event of events) {
    assert.equal(event.seq, count++);
    if (event.type in output) {
      output[event.type].push(outputOf(event));
    }
    last = event;
    await onEvent(event, output);
  }
  assert.equal(last.type, "exit");
  const [stdout, stderr] = [output.stdout, output.stderr].map((parts) => Buffer.concat(parts));
  return { stdout, stderr, command: last.command };
}

function assertComplete({ stdout, stderr, command }) {
  assert.equal(command.exitCode, 0);
  assert.ok(stdout.equals(expected("stdout")), "stdout");
  assert.ok(stderr.equals(expected("stderr")), "stderr");
}

test("a stream is the command's output, byte by byte, then its exit", async (t) => {
  const id = await provision(t);
  await host.writeFile(id, "go", "");
  assertComplete(await collect(host.execStream(id, shell(COUNTING))));
});

test("a stream goes on through cuts at any byte", async (t) => {
  const id = await provision(t);
  await host.writeFile(id, "go", "");
  for (const bytes of [1, 300, 997, 20011]) {
    const commandId = `cut-${bytes}`;
    await control(`cut-after?${bytes}`);
    // What can't get through so narrow a gap gets through when it is opened wide.
    const opened = setTimeout(() => void control("cut-after?0"), bytes < 997 ? 300 : 2000);
    assertComplete(await collect(host.execStream(id, shell(COUNTING, { commandId }))));
    clearTimeout(opened);
    await control("cut-after?0");
    assertComplete(await collect(host.follow(id, commandId)));
  }
});

for (const how of ["kill", "restart"]) {
  test(`a stream goes on through a ${how} of the service without loss or repeats`, async (t) => {
    const id = await provision(t);
    let done = false;
    const result = await collect(host.execStream(id, shell(COUNTING)), async (event, output) => {
      if (!done && event.type === "stdout") {
        done = true;
        assert.ok(output.stdout.length > 0);
        await control(how);
        await host.writeFile(id, "go", "");
      }
    });
    assertComplete(result);
  });
}

test("following begins where it is told", async (t) => {
  const id = await provision(t);
  const request = shell("echo a; sleep 0.3; echo b", { commandId: "behind" });
  const all = [];
  for await (const event of host.execStream(id, request)) {
    all.push(event);
  }
  const rest = [];
  for await (const event of host.follow(id, "behind", { after: 1 })) {
    rest.push(event);
  }
  assert.deepEqual(rest, all.slice(2));
});

test("leaving a stream leaves the command; aborting it ends the stream with its exit", async (t) => {
  const id = await provision(t);
  const request = shell("echo begun; cat; echo ended", { commandId: "left", stdinOpen: true });
  for await (const event of host.execStream(id, request)) {
    if (event.type === "stdout") {
      break;
    }
  }
  assert.equal((await host.command(id, "left")).state, "running");
  await host.writeStdin(id, "left", "more\n", { eof: true });
  const command = await host.command(id, "left", { waitMs: 60000 });
  assert.equal(command.stdout, "begun\nmore\nended\n");

  const controller = new AbortController();
  const events = host.execStream(id, shell("echo begun; sleep 600"), controller);
  const { command: aborted } = await collect(events, (event) => {
    if (event.type === "stdout") {
      controller.abort();
    }
  });
  assert.equal(aborted.termination.reason, "aborted");
});

test("a signal of a person's reaches the program", async (t) => {
  const id = await provision(t);
  const script = "trap 'echo caught; exit 3' INT; echo ready; while :; do sleep 0.05; done";
  const { stdout, command } = await collect(
    host.execStream(id, shell(script, { commandId: "trapped" })),
    (event) => (event.type === "stdout" && outputOf(event).includes(114) // "r" of ready
      ? host.signal(id, "trapped", "SIGINT")
      : undefined),
  );
  assert.deepEqual([stdout.toString(), command.exitCode], ["ready\ncaught\n", 3]);
});
