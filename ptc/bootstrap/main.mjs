// What runs inside before and around a program: says ready, waits for the one program, runs it, says
// how it ended. The service trusts nothing of what comes from here.
import { send, sendLast, sendTooLong, listen, isEnded, rehearse } from './channel.mjs';
import { encode, lossyReason, TOO_LONG } from './json.mjs';
import { makeConsole, quoteCut, replaceStream } from './output.mjs';
import { load, warm } from './program.mjs';

const uncurry = Function.prototype.bind.bind(Function.prototype.call);
const quote = JSON.stringify;
const { create, defineProperty, freeze } = Object;
const Text = String;
const NativePromise = Promise;
const CallMap = Map;
const mapGet = uncurry(Map.prototype.get);
const mapSet = uncurry(Map.prototype.set);
const mapDelete = uncurry(Map.prototype.delete);
const PlainError = Error;
const NativeTypeError = TypeError;
const WARM_AFTER_MS = 150;
const UNRENDERABLE = 'program threw an unrenderable value';

const calls = new CallMap();
let lastId = 0;
let limits;

const log = (text) => send(`{"type":"log","text":${quoteCut(text, limits.output + 1)}}`);

/* --- the end --- */

function fail(kind, message) {
  sendLast(`{"type":"done","ok":false,"kind":"${kind}","message":${quoteCut(message, limits.output + 1)}}`);
}

function render(thrown) {
  try {
    if ((typeof thrown === 'object' && thrown !== null) || typeof thrown === 'function') {
      const { stack } = thrown;
      if (typeof stack === 'string' && stack !== '') return stack;
      const { message } = thrown;
      if (typeof message === 'string' && message !== '') return message;
    }
    return Text(thrown);
  } catch {
    return UNRENDERABLE;
  }
}

const failThrown = (thrown) => {
  if (!isEnded()) fail('exception', render(thrown));
};

function finish(value, say) {
  if (isEnded()) return;
  if (value === undefined) {
    say('{"type":"done","ok":true}');
    return;
  }
  let text;
  try {
    text = encode(value, limits.output);
  } catch (fault) {
    if (fault === TOO_LONG) {
      say('{"type":"output-limit"}');
    } else {
      fail('invalid-output', `the completion is not lossless JSON: ${lossyReason(fault) ?? 'unreadable'}`);
    }
    return;
  }
  say(`{"type":"done","ok":true,"value":${text}}`);
}

/* --- bindings --- */

function makeErrorClass(wanted) {
  if (wanted === undefined) return undefined;
  const { name } = wanted;
  const made = { [name]: class extends PlainError {} }[name];
  defineProperty(made.prototype, 'name', {
    __proto__: null, value: name, writable: true, configurable: true, enumerable: false,
  });
  return made;
}

function makeFailure(binding, member, message) {
  if (binding.made === undefined) return new PlainError(message);
  const failure = new binding.made(message);
  defineProperty(failure, binding.errorClass.memberNameProperty, {
    __proto__: null, value: member, writable: true, configurable: true, enumerable: true,
  });
  return failure;
}

function call(binding, member, count, argument) {
  return new NativePromise((resolve, reject) => {
    if (isEnded()) return;
    if (count !== 1) {
      reject(new NativeTypeError(`${member} takes one argument`));
      return;
    }
    let text;
    try {
      text = encode(argument, limits.message);
    } catch (fault) {
      if (fault === TOO_LONG) {
        sendTooLong();
      } else {
        reject(new NativeTypeError(`the argument is not lossless JSON: ${lossyReason(fault) ?? 'unreadable'}`));
      }
      return;
    }
    lastId += 1;
    mapSet(calls, lastId, { __proto__: null, binding, member, resolve, reject });
    send(`{"type":"call","id":${lastId},"global":${quote(binding.global)},"function":${quote(member)},"argument":${text}}`);
  });
}

function makeNamespace(binding) {
  const namespace = create(null);
  for (const member of binding.functions) {
    const made = { [member]: (...given) => call(binding, member, given.length, given[0]) };
    defineProperty(namespace, member, {
      __proto__: null, value: made[member], enumerable: true, configurable: false, writable: false,
    });
  }
  return freeze(namespace);
}

function answer(message) {
  const waiting = mapGet(calls, message.id);
  if (waiting === undefined) return;
  mapDelete(calls, message.id);
  if (message.ok) waiting.resolve(message.value);
  else waiting.reject(makeFailure(waiting.binding, waiting.member, message.message));
}

/* --- the program --- */

// A promise of the program's is waited for as such, whatever became of Promise.prototype.
async function run(main, values, say) {
  let value;
  try {
    const running = main(...values);
    defineProperty(running, 'constructor', { __proto__: null, value: NativePromise });
    value = await running;
  } catch (thrown) {
    failThrown(thrown);
    return;
  }
  finish(value, say);
}

function start(boot, say) {
  const names = [];
  const values = [];
  for (const binding of boot.bindings) {
    names.push(binding.global);
    values.push(makeNamespace(binding));
    binding.made = makeErrorClass(binding.errorClass ?? undefined);
    if (binding.made !== undefined) {
      names.push(binding.errorClass.name);
      values.push(binding.made);
    }
  }
  let main;
  try {
    process.chdir(boot.cwd);
    main = load(names, boot.program);
  } catch (thrown) {
    failThrown(thrown);
    return;
  }
  run(main, values, say);
}

// `surroundings` get the streams, `say` how the program ended.
function boot(message, surroundings, say) {
  limits = freeze({ __proto__: null, output: message.outputMax, message: message.messageMax });
  surroundings.console = makeConsole(log);
  replaceStream(surroundings.process, 'stdout', 1, log);
  replaceStream(surroundings.process, 'stderr', 2, log);
  start(message, say);
}

let booted = false;
let idle;
listen((message) => {
  if (booted) {
    answer(message);
  } else {
    booted = true;
    clearTimeout(idle);
    boot(message, globalThis, sendLast);
  }
});

// Half of the time of a short program is V8's, which compiles what has not run yet: all of the way to
// the end of a program is gone once while nobody waits.
const FIRST = '{"type":"boot","outputMax":64,"messageMax":64,"cwd":"/","program":"return [1]","bindings":[]}';
function warmUp() {
  warm();
  rehearse(FIRST, (message) => boot(message, { __proto__: null, process: create(null) }, () => {}));
}

delete process.env.ELECTRON_RUN_AS_NODE;
process.env = create(null);
process.on('uncaughtException', failThrown);
process.on('unhandledRejection', failThrown);
idle = setTimeout(warmUp, WARM_AFTER_MS);
send('{"type":"ready"}');
