/* Inside of the module: what the build writes and assets.c reads. Static; any thread. */
#ifndef EXECHOST_WEB_EMBED_H
#define EXECHOST_WEB_EMBED_H

#include <stddef.h>

/* The assembler takes a file in as it is. */
#define EMBED(symbol, path)                                                                        \
    __asm__(".pushsection .rodata,\"a\",%progbits\n"                                               \
            ".globl " #symbol "\n"                                                                 \
            ".globl " #symbol "_end\n" #symbol ":\n"                                               \
            ".incbin \"" path "\"\n" #symbol "_end:\n"                                             \
            ".byte 0\n"                                                                            \
            ".popsection\n");                                                                      \
    extern const char symbol[] __attribute__((visibility("hidden")));                              \
    extern const char symbol##_end[] __attribute__((visibility("hidden")))

struct web_embedded {
    const char *name; /* below /assets/; "" is the page */
    const char *type;
    const char *digest;
    const char *plain;
    const char *plain_end;
    const char *gzip; /* NULL: not packed */
    const char *gzip_end;
};

extern const struct web_embedded web_table[];
extern const size_t web_table_count;

#endif
