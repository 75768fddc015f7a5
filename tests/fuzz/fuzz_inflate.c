/* workspace_inflate over arbitrary bytes: plain, gzip, zstd, damaged. Then with a file that can't
 * be read, and interrupted. */
#include "tests/fuzz/fuzz.h"

#include "workspace/inflate.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { OUT_MAX = 1 << 20 };

static struct workspace_inflate *inflate_of(int fd, struct cancel *cancel)
{
    struct workspace_inflate *inflate = NULL;
    struct error err = ERROR_INIT;

    fuzz_require(workspace_inflate_new(fd, cancel, &inflate, &err) == 0);
    return inflate;
}

/* What was opened for writing alone, or is interrupted, gives nothing. */
static void read_none(int fd, struct cancel *cancel)
{
    struct workspace_inflate *inflate = inflate_of(fd, cancel);
    struct error err = ERROR_INIT;
    const void *data = NULL;

    fuzz_require(workspace_inflate_read(inflate, &data, &err) == -1);
    fuzz_require(err.code == (cancel != NULL ? ERROR_RUNTIME : ERROR_INTERNAL));
    workspace_inflate_free(inflate);
}

static struct cancel *fired(void)
{
    static struct cancel *cancel;
    struct error err = ERROR_INIT;

    if (cancel == NULL) {
        fuzz_require(cancel_new(&cancel, &err) == 0);
        cancel_fire(cancel);
    }
    return cancel;
}

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
    int fd = memfd_create("inflate", MFD_CLOEXEC);
    int unreadable = open("/dev/null", O_WRONLY | O_CLOEXEC);
    struct workspace_inflate *inflate = inflate_of(fd, NULL);

    fuzz_require(unreadable >= 0);
    fuzz_require(fd >= 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
    read_all(inflate);
    workspace_inflate_free(inflate);
    read_none(unreadable, NULL);
    read_none(fd, fired());
    close(unreadable);
    close(fd);
    return 0;
}
