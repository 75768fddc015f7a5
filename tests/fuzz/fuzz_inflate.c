/* workspace_inflate over arbitrary bytes: plain, gzip, zstd, damaged. */
#include "tests/fuzz/fuzz.h"

#include "workspace/inflate.h"

#include <sys/mman.h>
#include <unistd.h>

enum { OUT_MAX = 1 << 20 };

static void read_all(struct workspace_inflate *inflate)
{
    struct error err = ERROR_INIT;
    volatile uint8_t touch = 0;
    size_t total = 0;
    ssize_t n;

    do {
        const void *data = NULL;

        n = workspace_inflate_read(inflate, &data, &err);
        for (ssize_t i = 0; i < n; i++) {
            touch ^= ((const uint8_t *)data)[i];
        }
        total += n > 0 ? (size_t)n : 0;
    } while (n > 0 && total < OUT_MAX);
    (void)touch;
    fuzz_require((n < 0) == (err.code != ERROR_NONE));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct workspace_inflate *inflate = NULL;
    struct error err = ERROR_INIT;
    int fd = memfd_create("inflate", MFD_CLOEXEC);

    fuzz_require(fd >= 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
    fuzz_require(workspace_inflate_new(fd, NULL, &inflate, &err) == 0);
    read_all(inflate);
    workspace_inflate_free(inflate);
    close(fd);
    return 0;
}
