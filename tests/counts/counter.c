/* Loaded into the service in front of its libraries: counts SQL statements begun, syncs asked for
 * and memory allocated, in the file that EXECHOST_COUNTS names, for who measures to read. */
#include <dlfcn.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

struct counts {
    _Atomic uint64_t statements;
    _Atomic uint64_t syncs;
    _Atomic uint64_t allocations;
};

static struct counts unseen; /* until the file is there */
static struct counts *counts = &unseen;

/* glibc's own, under the names that it keeps for this. */
void *__libc_malloc(size_t size);                /* NOLINT(bugprone-reserved-identifier) */
void *__libc_calloc(size_t count, size_t size);  /* NOLINT(bugprone-reserved-identifier) */
void *__libc_realloc(void *memory, size_t size); /* NOLINT(bugprone-reserved-identifier) */

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("EXECHOST_COUNTS");
    int fd = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
    void *shared = MAP_FAILED;

    if (fd >= 0 && ftruncate(fd, sizeof(*counts)) == 0) {
        shared = mmap(NULL, sizeof(*counts), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    if (fd >= 0) {
        close(fd);
    }
    if (shared != MAP_FAILED) {
        counts = shared;
    }
}

void *malloc(size_t size)
{
    atomic_fetch_add(&counts->allocations, 1);
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    atomic_fetch_add(&counts->allocations, 1);
    return __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size)
{
    atomic_fetch_add(&counts->allocations, 1);
    return __libc_realloc(memory, size);
}

/* A statement that goes on is no new one. */
int sqlite3_step(sqlite3_stmt *statement)
{
    static int (*next)(sqlite3_stmt *);

    if (next == NULL) {
        next = (int (*)(sqlite3_stmt *))dlsym(RTLD_NEXT, "sqlite3_step");
    }
    if (sqlite3_stmt_busy(statement) == 0) {
        atomic_fetch_add(&counts->statements, 1);
    }
    return next(statement);
}

int fsync(int fd)
{
    atomic_fetch_add(&counts->syncs, 1);
    return (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    atomic_fetch_add(&counts->syncs, 1);
    return (int)syscall(SYS_fdatasync, fd);
}

int syncfs(int fd)
{
    atomic_fetch_add(&counts->syncs, 1);
    return (int)syscall(SYS_syncfs, fd);
}
