// The control socket: frames of a big-endian length and UTF-8 JSON. What is sent is written at once,
// so that a program which never comes back has still said what it said.
const { writeSync } = process.getBuiltinModule('node:fs');
const { Socket } = process.getBuiltinModule('node:net');

const uncurry = Function.prototype.bind.bind(Function.prototype.call);
const CONTROL = 3;
const HEAD = 4;
const encodeText = uncurry(TextEncoder.prototype.encode);
const decodeText = uncurry(TextDecoder.prototype.decode);
const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const bytesSet = uncurry(Uint8Array.prototype.set);
const bytesPart = uncurry(Uint8Array.prototype.subarray);
const Bytes = Uint8Array;
const wait = Atomics.wait;
const pause = new Int32Array(new SharedArrayBuffer(4));
const parse = JSON.parse;
const larger = Math.max;
const exit = process.reallyExit.bind(process);

let ended = false;

function writeAll(bytes, length) {
  let done = 0;
  while (done < length) {
    try {
      done += writeSync(CONTROL, bytes, done, length - done);
    } catch (fault) {
      if (fault?.code !== 'EAGAIN') exit(1);
      wait(pause, 0, 0, 1);
    }
  }
}

function frameOf(text) {
  const body = encodeText(encoder, text);
  const { length } = body;
  const frame = new Bytes(HEAD + length);
  frame[0] = length >>> 24;
  frame[1] = length >>> 16;
  frame[2] = length >>> 8;
  frame[3] = length;
  bytesSet(frame, body, HEAD);
  return frame;
}

// `text` is the JSON of one frame.
export function send(text) {
  if (ended) return;
  const frame = frameOf(text);
  writeAll(frame, frame.length);
}

// The same, and the last word.
export function sendLast(text) {
  send(text);
  ended = true;
}

// A frame that is longer than allowed is not worth making: its head alone says so.
export function sendTooLong() {
  const head = new Bytes(HEAD);
  head[0] = head[1] = head[2] = head[3] = 255;
  if (!ended) writeAll(head, HEAD);
  ended = true;
}

export const isEnded = () => ended;

let store = new Bytes(64 * 1024);
let held = 0;

function keep(chunk) {
  const { length } = chunk;
  if (held + length > store.length) {
    const wider = new Bytes(larger(store.length * 2, held + length));
    bytesSet(wider, bytesPart(store, 0, held), 0);
    store = wider;
  }
  bytesSet(store, chunk, held);
  held += length;
}


function take(deliver) {
  let at = 0;
  while (held - at >= HEAD) {
    const length = ((store[at] << 24) | (store[at + 1] << 16) | (store[at + 2] << 8) | store[at + 3]) >>> 0;
    if (held - at - HEAD < length) break;
    const text = decodeText(decoder, bytesPart(store, at + HEAD, at + HEAD + length));
    at += HEAD + length;
    deliver(parse(text));
  }
  if (at > 0) {
    bytesSet(store, bytesPart(store, at, held), 0);
    held -= at;
  }
}

// Does with a frame what is done with those of the service, unless one of them has begun to come.
export function rehearse(text, deliver) {
  if (held > 0) return;
  keep(frameOf(text));
  take(deliver);
}

// Calls `deliver` with each frame of the service. Without the service there is nothing to live for.
export function listen(deliver) {
  const socket = new Socket({ fd: CONTROL, readable: true, writable: false });
  socket.on('data', (chunk) => {
    keep(chunk);
    take(deliver);
  });
  socket.on('end', () => exit(0));
  socket.on('error', () => exit(1));
}
