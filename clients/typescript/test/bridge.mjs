// Makes the operations of the conformance table by this client: see tests/conformance/lib/bridge.py.
import { createInterface } from "node:readline";
import { isDeepStrictEqual } from "node:util";
import { ExecutionHostError, HttpExecutionHost } from "../dist/index.js";

/** A host whose every exchange is seen; each failure is to be seen once. */
function hostOf(request, exchanges) {
  const seeing = async (url, init) => {
    const response = await fetch(url, init);
    const body = await response.clone().text();
    exchanges.push({ status: response.status, headers: [...response.headers], body });
    return response;
  };
  const { baseUrl, token } = request;
  return new HttpExecutionHost({
    ...{ baseUrl, token: token ?? undefined, fetch: seeing, retry: { budgetMs: 0 } },
  });
}

function call(host, { operation, target, request, fencingToken, idempotencyKey }) {
  const options = {
    fencingToken: fencingToken ?? undefined,
    idempotencyKey: idempotencyKey ?? undefined,
  };
  switch (operation) {
    case "provision":
      return host.provision(request, options);
    case "terminate":
    case "reclaim":
      return host[operation](target, options);
    default:
      return host[operation](target, request, options);
  }
}

/** What the client made of the answer has to be what the answer says. */
function problemOf({ result, error }, { status, body }) {
  if (error === undefined) {
    const said = body === "" ? undefined : JSON.parse(body);
    return isDeepStrictEqual(result, said) && status < 300 ? undefined : "the result differs";
  }
  if (!(error instanceof ExecutionHostError)) {
    return String(error?.stack);
  }
  const problem = JSON.parse(body);
  const wrong = ["code", "retryable", "field", "status", "phase", "requestId"].filter(
    (name) => error[name] !== problem[name],
  );
  const causes = isDeepStrictEqual(error.causes, problem.causes ?? []);
  return wrong.length > 0 || !causes ? `the error differs in ${wrong}` : undefined;
}

async function answer(request) {
  const exchanges = [];
  const outcome = await call(hostOf(request, exchanges), request).then(
    (result) => ({ result }),
    (error) => ({ error }),
  );
  const exchange = exchanges.at(-1);
  if (exchange === undefined || exchanges.length !== 1) {
    return { problem: `${exchanges.length} exchanges; ${outcome.error?.stack}` };
  }
  return { ...exchange, problem: problemOf(outcome, exchange) };
}

for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  const request = JSON.parse(line);
  void answer(request).then((found) => {
    process.stdout.write(`${JSON.stringify({ id: request.id, ...found })}\n`);
  });
}
