#include "host/guest_binary.h"

/* The assembler copies the file in; the build makes this unit depend on it (EXECHOST_GUEST_FILE).
 */
__asm__(".pushsection .rodata\n"
        ".balign 16\n"
        "exechost_guest_start:\n"
        ".incbin \"" EXECHOST_GUEST_FILE "\"\n"
        "exechost_guest_end:\n"
        ".popsection\n");

extern const char guest_start[] __asm__("exechost_guest_start");
extern const char guest_end[] __asm__("exechost_guest_end");

const void *guest_binary(size_t *len)
{
    *len = (size_t)(guest_end - guest_start);
    return guest_start;
}
