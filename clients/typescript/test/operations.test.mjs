import assert from "node:assert/strict";
import { test } from "node:test";
import { ExecutionHostError, HttpExecutionHost } from "../dist/index.js";
import { baseUrl, control, eventually, executionRequest, host, provision, shell } from "./fixture.mjs";

function refuses(fields) {
  return (error) => {
    assert.ok(error instanceof ExecutionHostError, String(error));
    for (const [name, value] of Object.entries(fields)) {
      assert.deepEqual(error[name], value, name);
    }
    return true;
  };
}

test("a lifecycle: provision, exec, checkpoint, terminate, restore", async (t) => {
  const execution = await host.provision({ ...executionRequest, labels: { made: "here" } });
  assert.equal(execution.state, "provisioned");
  assert.deepEqual(execution.labels, { made: "here" });
  const id = execution.executionId;
  const command = await host.exec(id, shell("cat > f; echo out; echo err >&2; exit 7", { stdin: "x" }));
  assert.deepEqual(
    [command.exitCode, command.stdout, command.stderr, command.termination.reason],
    [7, "out\n", "err\n", "exited"],
  );
  const checkpoint = await host.checkpoint(id, { metadata: { step: 1 } });
  t.after(() => host.deleteCheckpoint(checkpoint.checkpointId));
  assert.deepEqual([checkpoint.sourceExecutionId, checkpoint.metadata], [id, { step: 1 }]);
  await host.terminate(id);
  await host.terminate(id);
  assert.equal((await host.execution(id)).termination.reason, "terminated");
  const restored = await host.restore(checkpoint.checkpointId);
  t.after(() => host.terminate(restored.executionId));
  assert.equal(restored.restoredFrom, checkpoint.checkpointId);
  assert.equal((await host.exec(restored.executionId, { command: "cat", args: ["f"] })).stdout, "x");
  await host.reclaim(restored.executionId);
  const ended = await host.execution(restored.executionId);
  assert.equal(ended.termination.reason, "reclaimed");
});

test("files go in and out as bytes", async (t) => {
  const id = await provision(t);
  const bytes = Uint8Array.from({ length: 70000 }, (_, i) => i % 251);
  await host.writeFile(id, "a b/ü&?.bin", bytes, { mode: "0600" });
  assert.deepEqual(await host.readFile(id, "a b/ü&?.bin"), bytes);
});

test("what the service refuses is thrown with code, field, status and retryable", async (t) => {
  const id = await provision(t);
  const bad = [
    [() => host.provision({ ...executionRequest, image: "base" }), "EXECUTION_INVALID_REQUEST", 400, "/image"],
    [() => host.provision({ ...executionRequest, network: undefined }), "EXECUTION_NETWORK_POLICY", 422],
    [() => host.provision({ ...executionRequest, executionId: id }), "EXECUTION_ALREADY_EXISTS", 409],
    [() => host.exec("nothing-here", { command: "true" }), "EXECUTION_NOT_FOUND", 404, undefined],
    [() => host.exec(id, { command: "x", timeoutMs: 0 }), "EXECUTION_INVALID_REQUEST", 400, "/timeoutMs"],
    [() => host.restore("nothing-here"), "EXECUTION_CHECKPOINT_NOT_FOUND", 404, undefined],
    [() => host.runProgram({ program: "", description: " " }), "PTC_INVALID_REQUEST", 400, "/description"],
  ];
  for (const [call, code, status, field] of bad) {
    const expected = { code, status, retryable: false, name: "ExecutionHostError" };
    await assert.rejects(call(), refuses(field ? { ...expected, field } : expected));
  }
});

test("a token below the owner's is fenced, by call and by host", async (t) => {
  const owner = { ownerId: "worker", fencingToken: 7 };
  const { executionId } = await host.provision({ ...executionRequest, owner });
  t.after(() => host.terminate(executionId, { fencingToken: 7 }));
  const fenced = refuses({ code: "OWNER_FENCED", status: 409 });
  await assert.rejects(host.exec(executionId, { command: "true" }, { fencingToken: 6 }), fenced);
  const old = new HttpExecutionHost({ baseUrl, fencingToken: 5 });
  await assert.rejects(old.terminate(executionId), fenced);
  assert.equal((await host.exec(executionId, { command: "true" }, { fencingToken: 7 })).exitCode, 0);
});

test("a timeout and an overflow are results", async (t) => {
  const slow = await host.exec(await provision(t), shell("sleep 600", { timeoutMs: 200 }));
  assert.deepEqual(slow.termination.code, "EXECUTION_TIMEOUT");
  const resources = { ...executionRequest.resources, maxOutputBytes: 1000 };
  const loud = await host.exec(await provision(t, { resources }), shell("yes"));
  assert.deepEqual([loud.termination.code, loud.stdout.length], ["EXECUTION_OUTPUT_LIMIT", 1000]);
});

test("an abort before a call starts nothing", async () => {
  const reason = new Error("no longer wanted");
  const options = { signal: AbortSignal.abort(reason) };
  const request = { ...executionRequest, executionId: "never-made" };
  await assert.rejects(host.provision(request, options), (error) => error === reason);
  await assert.rejects(host.exec("never-made", { command: "true" }, options), /no longer wanted/);
  await assert.rejects(host.runProgram({ program: "return 1" }, options), /no longer wanted/);
  await assert.rejects(host.execution("never-made"), refuses({ code: "EXECUTION_NOT_FOUND" }));
});

test("an abort of a command destroys its execution and is its result", async (t) => {
  const id = await provision(t);
  const controller = new AbortController();
  const commandId = "to-be-aborted";
  const running = host.exec(id, shell("echo begun; sleep 600", { commandId }), controller);
  await eventually(async () => {
    const seen = await host.command(id, commandId).catch(() => undefined);
    return seen?.stdout === "begun\n" ? seen : undefined;
  });
  controller.abort();
  const command = await running;
  assert.deepEqual([command.termination.reason, command.stdout], ["aborted", "begun\n"]);
  assert.equal((await host.execution(id)).termination.reason, "aborted");
});

test("an abort at any time of a provision or restore leaves nothing", async (t) => {
  const source = await provision(t);
  const { checkpointId } = await host.checkpoint(source);
  t.after(() => host.deleteCheckpoint(checkpointId));
  for (let delay = 0; delay < 40; delay += 4) {
    const executionId = `aborted-${delay}`;
    const signal = AbortSignal.timeout(delay);
    const call =
      delay % 8 === 0
        ? host.provision({ ...executionRequest, executionId }, { signal })
        : host.restore(checkpointId, { executionId }, { signal });
    try {
      await call;
      await host.terminate(executionId); // it had come to its end before
    } catch (error) {
      assert.equal(error, signal.reason);
    }
    const left = await host.execution(executionId).catch((error) => error);
    assert.ok(left.code === "EXECUTION_NOT_FOUND" || left.state !== "provisioned", String(left.state));
  }
});

test("an aborted checkpoint is not kept", async (t) => {
  const id = await provision(t);
  const controller = new AbortController();
  const call = host.checkpoint(id, { checkpointId: "unwanted" }, controller);
  controller.abort(new Error("unwanted"));
  await assert.rejects(call, /unwanted/);
  const path = "/v1/checkpoints/unwanted";
  await assert.rejects(
    host.transport.json({ method: "GET", path }),
    refuses({ code: "EXECUTION_CHECKPOINT_NOT_FOUND" }),
  );
});

test("a call whose answer is lost is not made twice", async (t) => {
  const id = await provision(t);
  await control("cut-after?40");
  const command = host.exec(id, shell("echo once >> runs"));
  // The first answers are cut within their headers.
  await new Promise((resolve) => setTimeout(resolve, 500));
  await control("cut-after?0");
  assert.equal((await command).exitCode, 0);
  assert.equal(new TextDecoder().decode(await host.readFile(id, "runs")), "once\n");
});

test("a command goes on through a kill of the service, and is answered", async (t) => {
  const id = await provision(t);
  const script = "echo begun; until [ -e go ]; do sleep 0.05; done; echo done";
  const running = host.exec(id, shell(script, { commandId: "through-a-kill" }));
  await eventually(async () => {
    const seen = await host.command(id, "through-a-kill").catch(() => undefined);
    return seen?.stdout === "begun\n" ? seen : undefined;
  });
  await control("kill");
  await host.writeFile(id, "go", "");
  const command = await running;
  assert.deepEqual([command.exitCode, command.stdout], [0, "begun\ndone\n"]);
});

test("a service that does not answer is told after the budget", async () => {
  const gone = new HttpExecutionHost({
    baseUrl: "http://127.0.0.1:9",
    retry: { budgetMs: 100, minDelayMs: 10 },
  });
  await assert.rejects(
    gone.terminate("x"),
    refuses({ code: "CLIENT_UNREACHABLE", status: 0, retryable: true }),
  );
});
