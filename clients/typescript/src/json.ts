/**
 * JSON that loses nothing, for the values of programs: null, booleans, finite numbers but -0, strings
 * (lone surrogates too), dense plain arrays, plain or null-prototype objects; any depth. BigInt is
 * refused, as is everything else that JSON.stringify would change or leave out: a number is an
 * IEEE 754 double on both sides, and JSON.parse gives back each one exactly.
 */

/** Why a value is not lossless JSON; `path` is a JSON pointer. */
export class LossyValueError extends TypeError {
  override readonly name = "LossyValueError";

  constructor(
    readonly path: string,
    what: string,
  ) {
    super(`${path === "" ? "The value" : path} is ${what}, which JSON can't carry without loss.`);
  }
}

interface Open {
  readonly value: object;
  /** Null of an array. */
  readonly keys: readonly string[] | null;
  readonly length: number;
  next: number;
}

function pathOf(stack: readonly Open[]): string {
  return stack
    .map((open) => open.keys?.[open.next - 1] ?? String(open.next - 1))
    .map((part) => `/${part.replace(/~/g, "~0").replace(/\//g, "~1")}`)
    .join("");
}

function describe(value: unknown): string {
  if (typeof value === "object" && value !== null) {
    return `an instance of ${value.constructor?.name ?? "a class"}`;
  }
  return Object.is(value, -0) ? "-0" : typeof value === "number" ? String(value) : typeof value;
}

function openArray(value: readonly unknown[], stack: readonly Open[]): Open {
  const names = Object.keys(value);
  const dense = names.length === value.length && names.every((name, i) => name === String(i));
  if (Object.getPrototypeOf(value) !== Array.prototype || !dense || hasSymbols(value)) {
    throw new LossyValueError(pathOf(stack), "a sparse or decorated array");
  }
  return { value, keys: null, length: value.length, next: 0 };
}

function hasSymbols(value: object): boolean {
  return Object.getOwnPropertySymbols(value).length > 0;
}

function openObject(value: object, stack: readonly Open[]): Open {
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== null && prototype !== Object.prototype) {
    throw new LossyValueError(pathOf(stack), describe(value));
  }
  if (hasSymbols(value)) {
    throw new LossyValueError(pathOf(stack), "an object with symbols");
  }
  const keys = Object.keys(value);
  return { value, keys, length: keys.length, next: 0 };
}

function scalar(value: unknown, stack: readonly Open[]): string | null {
  if (value === null || typeof value === "boolean" || typeof value === "string") {
    return JSON.stringify(value);
  }
  if (typeof value === "number" && Number.isFinite(value) && !Object.is(value, -0)) {
    return String(value);
  }
  if (typeof value === "object") {
    return null;
  }
  throw new LossyValueError(pathOf(stack), describe(value));
}

/** The text of a lossless value, of any depth; throws LossyValueError. */
export function losslessStringify(value: unknown): string {
  const parts: string[] = [];
  const stack: Open[] = [];
  const inside = new Set<object>();
  const add = (item: unknown): void => {
    const text = scalar(item, stack);
    if (text !== null) {
      parts.push(text);
      return;
    }
    const container = item as object;
    if (inside.has(container)) {
      throw new LossyValueError(pathOf(stack), "a cycle");
    }
    const open = Array.isArray(item) ? openArray(item, stack) : openObject(container, stack);
    inside.add(container);
    stack.push(open);
    parts.push(open.keys ? "{" : "[");
  };
  add(value);
  for (let open = stack.at(-1); open; open = stack.at(-1)) {
    if (open.next === open.length) {
      parts.push(open.keys ? "}" : "]");
      inside.delete(open.value);
      stack.pop();
      continue;
    }
    const key = open.keys ? open.keys[open.next]! : open.next;
    if (open.next > 0) {
      parts.push(",");
    }
    if (open.keys) {
      parts.push(JSON.stringify(key), ":");
    }
    open.next += 1;
    add((open.value as Record<string | number, unknown>)[key]);
  }
  return parts.join("");
}
