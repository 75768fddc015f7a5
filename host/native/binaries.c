#include "host/native/native_internal.h"

/* The assembler copies the file in; the build makes this unit depend on it (EXECHOST_SHIM_FILE). */
__asm__(".pushsection .rodata\n"
        ".balign 16\n"
        "exechost_shim_start:\n"
        ".incbin \"" EXECHOST_SHIM_FILE "\"\n"
        "exechost_shim_end:\n"
        ".popsection\n");

extern const char shim_start[] __asm__("exechost_shim_start");
extern const char shim_end[] __asm__("exechost_shim_end");

const void *native_shim_binary(size_t *len)
{
    *len = (size_t)(shim_end - shim_start);
    return shim_start;
}
