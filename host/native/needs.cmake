# Apart from the host, for who only wants to know what the machine lacks.
exechost_module(native_needs SOURCES needs.c USES base sandbox)
