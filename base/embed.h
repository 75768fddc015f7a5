/* Files inside of the program. The assembler takes one in as it is, where the compiler would need
 * an array literal; the build has to make the unit depend on the file. */
#ifndef EXECHOST_BASE_EMBED_H
#define EXECHOST_BASE_EMBED_H

/* Declares the file's bytes as SYMBOL_start[] up to SYMBOL_end, with a NUL behind them. They belong
 * to this unit. */
#define EMBED(symbol, path)                                                                        \
    __asm__(".pushsection .rodata,\"a\",%progbits\n"                                               \
            ".balign 16\n"                                                                         \
            "embedded_" #symbol "_start:\n"                                                        \
            ".incbin \"" path "\"\n"                                                               \
            "embedded_" #symbol "_end:\n"                                                          \
            ".byte 0\n"                                                                            \
            ".popsection\n");                                                                      \
    extern const char symbol##_start[] __asm__("embedded_" #symbol "_start");                      \
    extern const char symbol##_end[] __asm__("embedded_" #symbol "_end")

#endif
