// Compiled, never run: what the types promise to callers.
import { HttpExecutionHost, outputOf, type Command, type ErrorCodeOrOwn } from "exechost";

const host = new HttpExecutionHost({ baseUrl: "http://127.0.0.1:8470", token: "t" });
const resources = {
  ...{ cpus: 1, memoryBytes: 1, diskBytes: 1, pids: 1, runtimeMs: 1, maxOutputBytes: 1 },
};
const request = {
  image: "base@sha256:0",
  workspace: { kind: "git-worktree", repositoryPath: "/r", revision: "main" } as const,
  resources,
  network: { mode: "none" } as const,
};

export async function typed(signal: AbortSignal): Promise<number | null> {
  const { executionId, expiresAt } = await host.provision(request, { signal });
  const until: string | null = expiresAt;
  for await (const event of host.execStream(executionId, { command: "true" })) {
    if (event.type === "exit") {
      const exitCode: number | null = event.command.exitCode;
      return exitCode ?? until?.length ?? 0;
    }
    outputOf(event);
  }
  const command: Command = await host.exec(executionId, { command: "true", args: ["-x"] });
  const code: ErrorCodeOrOwn = "EXECUTION_TIMEOUT";
  return command.termination?.code === code ? null : command.exitCode;
}

export async function refused(): Promise<void> {
  // @ts-expect-error every limit is mandatory
  await host.provision({ ...request, resources: { cpus: 1 } });
  // @ts-expect-error there is no network to ask for
  await host.provision({ ...request, network: { mode: "host" } });
  // @ts-expect-error a field that is not there
  await host.exec("x", { command: "true", timeout: 5 });
  await host.runProgram({ program: "return 1", tools: { host: { add: ([a, b]) => a + b } } });
}
