#include "host/native/shim/shim.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* Before the strings the service leaves room for the pointers to them. */
static size_t table_size(const struct shim_plan *head)
{
    return ((size_t)head->argc + 1 + head->envc + 1) * sizeof(char *);
}

/* Points `table` at `count` strings from `at` on; the end of the last one, or NULL. */
static char *point(char **table, uint32_t count, char *at, const char *end)
{
    for (uint32_t i = 0; i < count; i++) {
        char *nul = at < end ? memchr(at, '\0', (size_t)(end - at)) : NULL;
        if (nul == NULL) {
            return NULL;
        }
        table[i] = at;
        at = nul + 1;
    }
    table[count] = NULL;
    return at;
}

static int fill(struct plan *plan)
{
    const struct shim_plan *head = plan->mapping;
    if (head->argc < 1 || head->size != plan->size ||
        sizeof(*head) + table_size(head) >= plan->size) {
        return -1;
    }
    char *end = (char *)plan->mapping + plan->size;
    char *at = (char *)plan->mapping + sizeof(*head) + table_size(head);
    plan->argv = (char **)((char *)plan->mapping + sizeof(*head));
    plan->envp = plan->argv + head->argc + 1;
    at = point(plan->argv, head->argc, at, end);
    at = at == NULL ? NULL : point(plan->envp, head->envc, at, end);
    if (at == NULL || at >= end || memchr(at, '\0', (size_t)(end - at)) == NULL) {
        return -1;
    }
    plan->cwd = at;
    return 0;
}

int plan_open(int fd, struct plan *out)
{
    struct stat st;
    if (fstat(fd, &st) != 0) {
        return -1;
    }
    if (st.st_size < (off_t)sizeof(struct shim_plan)) {
        errno = EPROTO;
        return -1;
    }
    struct plan plan = {.size = (size_t)st.st_size};
    plan.mapping = mmap(NULL, plan.size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    if (plan.mapping == MAP_FAILED) {
        return -1;
    }
    if (fill(&plan) != 0) {
        plan_close(&plan);
        errno = EPROTO;
        return -1;
    }
    *out = plan;
    return 0;
}

void plan_close(struct plan *plan)
{
    (void)munmap(plan->mapping, plan->size);
}
