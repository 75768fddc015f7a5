// From the text of a program to a function: types stripped by Node itself, positions kept.
const { stripTypeScriptTypes } = process.getBuiltinModule('node:module');
const { Script, constants } = process.getBuiltinModule('node:vm');

const uncurry = Function.prototype.bind.bind(Function.prototype.call);
const includes = uncurry(String.prototype.includes);
const slice = uncurry(String.prototype.slice);
const AsyncFunction = (async () => {}).constructor;
const { construct } = Reflect;
const FILE = 'program.ts';

const strip = (text) => stripTypeScriptTypes(text, { mode: 'strip' });


function compile(parameters, body) {
  const head = `(async function (${parameters}) { "use strict"; `;
  return new Script(`${head}${body}\n})`, {
    filename: FILE,
    columnOffset: -head.length,
    importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
  });
}

// A body that closes the function around it and opens another is none.
function checkBody(names, body) {
  construct(AsyncFunction, [...names, `"use strict"; ${body}\n`]);
}

function stripped(program) {
  const head = 'async function program() { ';
  const text = strip(`${head}${program}\n}`);
  return slice(text, head.length, text.length - 2);
}

function plain(names, parameters, program) {
  try {
    checkBody(names, program);
    return compile(parameters, program);
  } catch {
    return undefined;
  }
}

// `names` are the parameters. Throws what the program's writer is to see.
export function load(names, program) {
  const parameters = names.join(', ');
  // Without a "<" a text that is JavaScript means the same as TypeScript.
  let script = includes(program, '<') ? undefined : plain(names, parameters, program);
  if (script === undefined) {
    const body = stripped(program);
    script = compile(parameters, body);
    checkBody(names, body);
  }
  return script.runInThisContext();
}

// Loads the compiler, and what leads from a text to a function, while nobody waits for it.
export function warm() {
  strip('let a: number = 1;');
  load(['a'], 'return a');
}
