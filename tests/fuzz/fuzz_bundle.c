/* An exported checkpoint. What is accepted has its three members inside the file, one behind the
 * other, and the writer's headers in front of the same bytes are accepted again. */
#include "tests/fuzz/fuzz.h"

#include "workspace/bundle.h"
#include "workspace/manifest.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { TEXT_MAX = 16 * 1024 * 1024 };

static int file_of(const void *data, size_t size)
{
    int fd = memfd_create("bundle", MFD_CLOEXEC);

    fuzz_require(fd >= 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
    return fd;
}

static void check_members(const struct workspace_bundle *found, size_t size)
{
    int64_t at = 0;

    for (int part = 0; part < WORKSPACE_BUNDLE_PARTS; part++) {
        const struct workspace_bundle_member *m = &found->members[part];

        fuzz_require(m->offset >= at + WORKSPACE_BUNDLE_BLOCK && m->size >= 0);
        fuzz_require(m->offset % WORKSPACE_BUNDLE_BLOCK == 0);
        at = m->offset + m->size;
    }
    fuzz_require(at + 2 * (int64_t)WORKSPACE_BUNDLE_BLOCK <= (int64_t)size);
    fuzz_require(found->members[WORKSPACE_BUNDLE_MANIFEST].size <= WORKSPACE_MANIFEST_MAX);
}

static void check_again(const struct workspace_bundle *found, const uint8_t *data)
{
    struct workspace_bundle again;
    struct error err = ERROR_INIT;
    struct buf text;
    int fd;

    buf_init(&text, TEXT_MAX);
    for (int i = 0; i < WORKSPACE_BUNDLE_PARTS; i++) {
        enum workspace_bundle_part part = (enum workspace_bundle_part)i;
        const struct workspace_bundle_member *m = &found->members[i];

        fuzz_require(workspace_bundle_put_head(&text, part, found->compression, m->size, 0) == 0);
        fuzz_require(buf_add(&text, data + m->offset, (size_t)m->size) == 0);
        fuzz_require(workspace_bundle_put_tail(&text, part, m->size) == 0);
    }
    fd = file_of(text.data, text.len);
    fuzz_require(workspace_bundle_find(fd, (int64_t)text.len, &again, &err) == 0);
    fuzz_require(again.compression == found->compression);
    close(fd);
    buf_done(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct workspace_bundle found;
    struct error err = ERROR_INIT;
    int fd = file_of(data, size);

    if (workspace_bundle_find(fd, (int64_t)size, &found, &err) == 0) {
        check_members(&found, size);
        check_again(&found, data);
    } else {
        fuzz_require(err.code == ERROR_CHECKPOINT_INVALID);
    }
    close(fd);
    return 0;
}
