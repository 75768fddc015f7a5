// What a program prints: console and the standard streams become log entries.
const { Writable } = process.getBuiltinModule('node:stream');
const { StringDecoder } = process.getBuiltinModule('node:string_decoder');
const { inspect } = process.getBuiltinModule('node:util');

const quote = JSON.stringify;
const { freeze, defineProperty } = Object;
const slice = Function.prototype.bind.bind(Function.prototype.call)(String.prototype.slice);
const { floor } = Math;
const LOOK = freeze({ __proto__: null, depth: 4, maxArrayLength: 100, maxStringLength: 10000 });

// A JSON string of at most `room` units: a text that is too long stays too long for the service's
// count, but is no longer than a frame may be.
export function quoteCut(text, room) {
  let part = text.length > room ? slice(text, 0, room) : text;
  let quoted = quote(part);
  while (quoted.length > room * 2) {
    part = slice(part, 0, floor(part.length / 2));
    quoted = quote(part);
  }
  return quoted;
}

const show = (value) => (typeof value === 'string' ? value : inspect(value, { __proto__: null, ...LOOK }));

export function makeConsole(log) {
  const print = (count, values) => {
    let text = '';
    for (let i = 0; i < count; i += 1) text += (i === 0 ? '' : ' ') + show(values[i]);
    log(text);
  };
  return {
    log(...values) { print(values.length, values); },
    info(...values) { print(values.length, values); },
    warn(...values) { print(values.length, values); },
    error(...values) { print(values.length, values); },
    debug(...values) { print(values.length, values); },
  };
}

function makeStream(fd, log) {
  const decoder = new StringDecoder('utf8');
  const stream = new Writable({
    decodeStrings: false,
    write(chunk, encoding, done) {
      const text = typeof chunk === 'string' ? chunk : decoder.write(chunk);
      if (text !== '') log(text);
      done();
    },
  });
  stream.fd = fd;
  stream.isTTY = false;
  return stream;
}

// Made when asked for first: most programs never do.
export function replaceStream(owner, name, fd, log) {
  let stream;
  defineProperty(owner, name, {
    __proto__: null,
    configurable: true,
    enumerable: true,
    get: () => (stream ??= makeStream(fd, log)),
  });
}
