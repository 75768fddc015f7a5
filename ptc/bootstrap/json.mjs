// Lossless JSON of a program's values. Everything it needs is taken before the program runs, nothing
// recurses, and no array of its own is written by index (a setter on Array.prototype would see it).
const { types } = process.getBuiltinModule('node:util');

const uncurry = Function.prototype.bind.bind(Function.prototype.call);
const { isArray } = Array;
const { getPrototypeOf } = Object;
const { ownKeys, getOwnPropertyDescriptor, get } = Reflect;
const quote = JSON.stringify;
const isFinite = Number.isFinite;
const arrayPrototype = Array.prototype;
const objectPrototype = Object.prototype;
const PathSet = Set;
const pathHas = uncurry(Set.prototype.has);
const pathAdd = uncurry(Set.prototype.add);
const pathDelete = uncurry(Set.prototype.delete);
const freeze = Object.freeze;

const {
  isAnyArrayBuffer, isArgumentsObject, isArrayBufferView, isBoxedPrimitive, isDate, isExternal,
  isGeneratorObject, isMap, isMapIterator, isModuleNamespaceObject, isNativeError, isPromise,
  isProxy, isRegExp, isSet, isSetIterator, isWeakMap, isWeakSet,
} = types;

// What encode() throws: never seen by the program.
export const TOO_LONG = freeze({ __proto__: null, tooLong: true });
const lossy = (what) => ({ __proto__: null, lossy: what });
export const lossyReason = (fault) =>
  (typeof fault === 'object' && fault !== null && typeof fault.lossy === 'string' ? fault.lossy : undefined);

function exoticName(value) {
  if (isProxy(value)) return 'a proxy';
  if (isDate(value)) return 'a Date';
  if (isRegExp(value)) return 'a RegExp';
  if (isMap(value) || isWeakMap(value)) return 'a Map';
  if (isSet(value) || isWeakSet(value)) return 'a Set';
  if (isAnyArrayBuffer(value) || isArrayBufferView(value)) return 'a buffer';
  if (isNativeError(value)) return 'an error';
  if (isBoxedPrimitive(value)) return 'a boxed primitive';
  if (isPromise(value)) return 'a promise';
  if (isArgumentsObject(value) || isGeneratorObject(value) || isExternal(value) ||
      isMapIterator(value) || isSetIterator(value) || isModuleNamespaceObject(value)) {
    return 'no plain object';
  }
  return undefined;
}

function primitive(value) {
  switch (typeof value) {
    case 'string': return quote(value);
    case 'boolean': return value ? 'true' : 'false';
    case 'number':
      if (!isFinite(value)) throw lossy('a number that is not finite');
      if (value === 0 && 1 / value < 0) throw lossy('-0');
      return `${value}`;
    case 'undefined': throw lossy('undefined');
    case 'bigint': throw lossy('a BigInt');
    case 'symbol': throw lossy('a symbol');
    case 'function': throw lossy('a function');
    default: return 'null';
  }
}

function read(object, key) {
  try {
    return get(object, key);
  } catch {
    throw lossy('a getter that throws');
  }
}

// A frame is what is left to do of one container.
function open(value, up) {
  const exotic = exoticName(value);
  if (exotic !== undefined) throw lossy(exotic);
  const prototype = getPrototypeOf(value);
  const keys = ownKeys(value);
  if (isArray(value)) {
    if (prototype !== arrayPrototype) throw lossy('an instance of a class');
    const { length } = value;
    // Indices come first and in order, so a dense array has exactly these keys.
    if (keys.length !== length + 1) throw lossy('a sparse or decorated array');
    if (length > 0 && keys[length - 1] !== `${length - 1}`) throw lossy('a sparse or decorated array');
    return { __proto__: null, up, value, keys: undefined, length, next: 0, first: true };
  }
  if (prototype !== objectPrototype && prototype !== null) throw lossy('an instance of a class');
  return { __proto__: null, up, value, keys, length: keys.length, next: 0, first: true };
}

function isListed(object, key) {
  const descriptor = getOwnPropertyDescriptor(object, key);
  return descriptor !== undefined && descriptor.enumerable;
}

// The JSON text of a value. Throws TOO_LONG above `max` UTF-16 units, else what lossyReason knows.
export function encode(root, max) {
  if (typeof root !== 'object' || root === null) {
    const text = primitive(root);
    if (text.length > max) throw TOO_LONG;
    return text;
  }
  const path = new PathSet();
  let frame = open(root, undefined);
  pathAdd(path, root);
  let out = frame.keys === undefined ? '[' : '{';
  while (frame !== undefined) {
    if (out.length > max) throw TOO_LONG;
    if (frame.next === frame.length) {
      out += frame.keys === undefined ? ']' : '}';
      pathDelete(path, frame.value);
      frame = frame.up;
      continue;
    }
    const key = frame.keys === undefined ? frame.next : frame.keys[frame.next];
    frame.next += 1;
    if (frame.keys !== undefined) {
      if (!isListed(frame.value, key)) continue;
      if (typeof key === 'symbol') throw lossy('a symbol as a key');
    }
    const value = read(frame.value, key);
    if (!frame.first) out += ',';
    frame.first = false;
    if (frame.keys !== undefined) out += `${quote(key)}:`;
    if (typeof value !== 'object' || value === null) {
      out += primitive(value);
      continue;
    }
    if (pathHas(path, value)) throw lossy('a cycle');
    frame = open(value, frame);
    pathAdd(path, value);
    out += frame.keys === undefined ? '[' : '{';
  }
  if (out.length > max) throw TOO_LONG;
  return out;
}
