// What the tests share: a client of the service under test, and the harness's control.
import { HttpExecutionHost } from "../dist/index.js";

const { EXECHOST_TEST_URL, EXECHOST_TEST_CONTROL, EXECHOST_TEST_IMAGE } = process.env;

export const host = new HttpExecutionHost({ baseUrl: EXECHOST_TEST_URL });
export const baseUrl = EXECHOST_TEST_URL;

/** What the harness can do: see clients/lib/harness.py. */
export async function control(action) {
  const answer = await fetch(`${EXECHOST_TEST_CONTROL}/${action}`, { method: "POST" });
  if (!answer.ok) {
    throw new Error(`${action}: ${await answer.text()}`);
  }
}

export const executionRequest = {
  image: EXECHOST_TEST_IMAGE,
  workspace: { kind: "empty" },
  resources: {
    cpus: 1,
    memoryBytes: 256 << 20,
    diskBytes: 32 << 20,
    pids: 64,
    runtimeMs: 3600000,
    maxOutputBytes: 32 << 20,
  },
  network: { mode: "none" },
};

/** A new execution for one test, which is terminated at its end. */
export async function provision(test, more = {}) {
  const execution = await host.provision({ ...executionRequest, ...more });
  test.after(() => host.terminate(execution.executionId));
  return execution.executionId;
}

export function shell(script, more = {}) {
  return { command: "/bin/sh", args: ["-c", script], ...more };
}

/** Resolves once `look` says something other than undefined. */
export async function eventually(look) {
  for (;;) {
    const found = await look();
    if (found !== undefined) {
      return found;
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
