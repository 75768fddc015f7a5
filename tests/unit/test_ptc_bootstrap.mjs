// Generated values through the bootstrap's lossless JSON: what is plain comes back the same, and one
// bad value anywhere refuses the whole. The seed is printed, so that a failure can be had again:
// node test_ptc_bootstrap.mjs [cases] [seed]
import assert from 'node:assert/strict';
import { encode, lossyReason, TOO_LONG } from '../../ptc/bootstrap/json.mjs';

const cases = Number(process.argv[2] ?? 100000);
const seed = Number(process.argv[3] ?? Date.now() % 4294967296);
console.log(`${cases} cases, seed ${seed}`);

let state = seed >>> 0;
function random(limit) {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return Math.floor((state / 4294967296) * limit);
}
const pick = (list) => list[random(list.length)];

const strings = ['', 'a', '"', '\\', '\u0000', '\u2028', '\ud800', '\udc00x', '😀', '__proto__', 'toJSON', '0', 'é'];
const numbers = [0, 1, -1, 0.1, 1e21, 1e-7, 5e-324, 1.7976931348623157e308, 2 ** 53, -123.456, 4294967295];

class Instance { x = 1; }
const cycle = () => { const a = []; a[0] = { a }; return a; };
const decorated = () => Object.assign([1], { x: 1 });
const bad = [
  () => undefined, () => NaN, () => Infinity, () => -Infinity, () => -0, () => 1n, () => Symbol('s'), () => () => 1,
  () => new Date(), () => /x/, () => new Map(), () => new Set(), () => new WeakMap(), () => Buffer.from('a'),
  () => new ArrayBuffer(1), () => new Float64Array(1), () => new Error('x'), () => Object(1), () => Object('s'),
  () => new Instance(), () => [, 1], () => [1, , 2], decorated, cycle, () => Promise.resolve(1),
  () => ({ get a() { throw new Error('no'); } }), () => Object.setPrototypeOf(new Date(), Object.prototype),
  () => Object.setPrototypeOf([], null), () => new Proxy({}, {}), () => ({ [Symbol.iterator]: 1 }),
  () => Object.create({}), () => new (class extends Array {})(), () => Object.setPrototypeOf(new Map(), null),
];

function leaf() {
  switch (random(5)) {
    case 0: return null;
    case 1: return random(2) === 1;
    case 2: return pick(numbers);
    default: return pick(strings) + pick(strings);
  }
}

// `hole` is where the bad value goes: none when it is undefined.
function container(depth, hole) {
  const size = random(4) + (hole ? 1 : 0);
  const at = hole ? random(size) : -1;
  const child = (i) => (i === at ? make(depth - 1, hole) : make(depth - 1));
  if (random(2) === 0) return Array.from({ length: size }, (_, i) => child(i));
  const object = random(3) === 0 ? Object.create(null) : {};
  for (let i = 0; i < size; i += 1) {
    const key = `${pick(strings)}${i === at ? 'hole' : i}`;
    Object.defineProperty(object, key, { value: child(i), enumerable: true, writable: true, configurable: true });
  }
  return object;
}

function make(depth, hole) {
  if (depth <= 0) return hole ? hole() : leaf();
  if (hole) return random(4) === 0 ? hole() : container(depth, hole);
  return random(3) === 0 ? container(depth) : leaf();
}

function reasonOf(value) {
  try {
    encode(value, 1e9);
    return undefined;
  } catch (fault) {
    assert.notEqual(lossyReason(fault), undefined);
    return lossyReason(fault);
  }
}

for (let i = 0; i < cases; i += 1) {
  if (random(3) === 0) {
    const hole = pick(bad);
    assert.notEqual(reasonOf(make(random(5), hole)), undefined, `case ${i}: ${hole}`);
  } else {
    const value = make(random(6));
    const text = encode(value, 1e9);
    // JSON.stringify consults toJSON only where it is a function, which no plain value has.
    assert.equal(text, JSON.stringify(value), `case ${i}`);
    if (text.length > 1) assert.throws(() => encode(value, text.length - 1), (fault) => fault === TOO_LONG);
  }
}

// Shared is copied, getters are read once, what is not enumerable is left out, depth does not matter.
const shared = { a: [1] };
assert.equal(encode([shared, shared], 100), '[{"a":[1]},{"a":[1]}]');
let reads = 0;
assert.equal(encode({ get a() { reads += 1; return reads; } }, 100), '{"a":1}');
assert.equal(encode(Object.defineProperty({}, 'a', { value: 1 }), 100), '{}');
let deep = [];
for (let i = 0; i < 100000; i += 1) deep = i % 2 === 0 ? [deep] : { a: deep };
assert.equal(encode(deep, 1e9).length, 200000 + 2 + 50000 * 4);
