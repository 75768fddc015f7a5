import type { CommandEvent } from "./types.js";

/** The bytes of an event of output; none of any other. */
export function outputOf(event: CommandEvent): Uint8Array {
  if (event.type !== "stdout" && event.type !== "stderr") {
    return new Uint8Array();
  }
  if ("data" in event) {
    return new TextEncoder().encode(event.data);
  }
  return Uint8Array.from(atob(event.dataBase64), (character) => character.charCodeAt(0));
}
