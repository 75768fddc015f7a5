import type * as schema from "./schema.js";

export type { Binding } from "./schema.js";
export type BindingErrorClass = NonNullable<schema.Binding["errorClass"]>;

/** What an iteration yields; the signs of life of a stream are left out. */
export type CommandEvent = Exclude<schema.CommandEvent, schema.EventPing>;
export type RunEvent = Exclude<schema.RunEvent, schema.EventPing>;
