/* Runs a driver over files and all files of directories, without libFuzzer: where a compiler has
 * none, and where what they cover is counted. */
#include "tests/fuzz/fuzz.h"

#include <fts.h>
#include <stdio.h>

static void replay(const char *path)
{
    FILE *file = fopen(path, "re");
    uint8_t *data = NULL;
    size_t size = 0;
    size_t room = 0;
    size_t got = 0;

    fuzz_require(file != NULL);
    do {
        size += got;
        if (size == room) {
            room = room * 2 + 4096;
            data = realloc(data, room);
            fuzz_require(data != NULL);
        }
        got = fread(data + size, 1, room - size, file);
    } while (got > 0);
    fclose(file);
    uint8_t *copy = fuzz_copy(data, size);
    (void)LLVMFuzzerTestOneInput(copy, size);
    free(copy);
    free(data);
}

int main(int argc, char **argv)
{
    FTS *walk;
    const FTSENT *entry;
    unsigned count = 0;

    if (argc < 2) {
        fprintf(stderr, "usage: %s FILE|DIRECTORY...\n", argv[0]);
        return 2;
    }
    walk = fts_open(argv + 1, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    fuzz_require(walk != NULL);
    while ((entry = fts_read(walk)) != NULL) {
        if (entry->fts_info == FTS_F) {
            replay(entry->fts_path);
            count++;
        }
    }
    fts_close(walk);
    printf("%u inputs\n", count);
    return 0;
}
