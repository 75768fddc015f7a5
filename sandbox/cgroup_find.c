/* Which hierarchies there are, and what they are good for. */
#include "sandbox/cgroup.h"
#include "sandbox/cgroup_file.h"

#include <stdio.h>

enum { LINE_MAX_BYTES = 4096 };

static const struct {
    const char *name;
    enum cgroup_use use;
} controllers[] = {
    {"cpu", CGROUP_CPU},
    {"memory", CGROUP_MEMORY},
    {"pids", CGROUP_PIDS},
    {"freezer", CGROUP_CONTROL},
};

/* Whether `word` is in a list that `separators` divide. */
static bool has_word(const char *list, const char *word, const char *separators)
{
    size_t len = strlen(word);
    while (*list != '\0') {
        size_t part = strcspn(list, separators);
        if (part == len && strncmp(list, word, len) == 0) {
            return true;
        }
        list += part;
        list += *list != '\0';
    }
    return false;
}

static uint32_t uses_of_list(const char *list, const char *separators)
{
    uint32_t uses = 0;
    for (size_t i = 0; i < ARRAY_SIZE(controllers); i++) {
        if (has_word(list, controllers[i].name, separators)) {
            uses |= (uint32_t)controllers[i].use;
        }
    }
    return uses;
}

struct found {
    struct cgroup_set *roots;
    uint32_t served;
};

static int add_tree(struct found *f, uint32_t version, uint32_t uses, const char *path)
{
    uses &= ~f->served;
    if (uses == 0 || f->roots->count == CGROUP_TREES_MAX) {
        return 0;
    }
    int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    f->roots->trees[f->roots->count++] =
        (struct cgroup_tree){.version = version, .uses = uses, .fd = fd};
    f->served |= uses;
    return 0;
}

static uint32_t unified_uses(const char *path)
{
    char text[CGROUP_TEXT_MAX];
    int dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0) {
        return 0;
    }
    int result = cgroup_read_text(dir, "cgroup.controllers", text);
    close(dir);
    return CGROUP_CONTROL | (result == 0 ? uses_of_list(text, " \n") : 0);
}

/* A line of mountinfo: … … … root path options … - type source super-options. Mount points of
 * hierarchies have no characters that would be escaped. */
static int look_at(struct found *f, char *line, unsigned version)
{
    char *tail = strstr(line, " - ");
    char *fields[5] = {NULL};
    if (tail == NULL) {
        return 0;
    }
    char *save = NULL;
    char *word = strtok_r(line, " ", &save);
    for (size_t i = 0; i < ARRAY_SIZE(fields) && word != NULL; i++) {
        fields[i] = word;
        word = strtok_r(NULL, " ", &save);
    }
    char *type = strtok_r(tail + 3, " ", &save);
    char *source = strtok_r(NULL, " ", &save);
    char *options = strtok_r(NULL, " \n", &save);
    if (fields[4] == NULL || type == NULL || source == NULL || options == NULL) {
        return 0;
    }
    if (version == 2 && strcmp(type, "cgroup2") == 0) {
        return add_tree(f, 2, unified_uses(fields[4]), fields[4]);
    }
    if (version == 1 && strcmp(type, "cgroup") == 0) {
        return add_tree(f, 1, uses_of_list(options, ","), fields[4]);
    }
    return 0;
}

static int look_for(struct found *f, unsigned version)
{
    char line[LINE_MAX_BYTES];
    FILE *file = fopen("/proc/self/mountinfo", "re");
    int result = 0;
    if (file == NULL) {
        return -1;
    }
    while (result == 0 && fgets(line, sizeof(line), file) != NULL) {
        result = look_at(f, line, version);
    }
    (void)fclose(file);
    return result;
}

int cgroup_find(struct cgroup_set *roots, struct sandbox_fault *fault)
{
    static const struct {
        enum cgroup_use use;
        const char *missing;
    } needed[] = {
        {CGROUP_CPU, "find the cpu controller"},
        {CGROUP_MEMORY, "find the memory controller"},
        {CGROUP_PIDS, "find the pids controller"},
        {CGROUP_CONTROL, "find a hierarchy that freezes"},
    };
    struct found f = {.roots = roots};
    *roots = (struct cgroup_set)CGROUP_SET_INIT;
    if (look_for(&f, 2) != 0 || look_for(&f, 1) != 0) {
        (void)sandbox_fail(fault, "look for cgroup hierarchies");
        cgroup_set_close(roots);
        return -1;
    }
    for (size_t i = 0; i < ARRAY_SIZE(needed); i++) {
        if ((f.served & (uint32_t)needed[i].use) == 0) {
            errno = ENODEV;
            (void)sandbox_fail(fault, needed[i].missing);
            cgroup_set_close(roots);
            return -1;
        }
    }
    return 0;
}

int cgroup_delegate(const struct cgroup_set *set)
{
    for (uint32_t i = 0; i < set->count; i++) {
        const struct cgroup_tree *tree = &set->trees[i];
        for (size_t c = 0; tree->version == 2 && c < ARRAY_SIZE(controllers); c++) {
            char text[16];
            if ((tree->uses & (uint32_t)controllers[c].use) == 0 ||
                controllers[c].use == CGROUP_CONTROL) {
                continue;
            }
            snprintf(text, sizeof(text), "+%s", controllers[c].name);
            if (cgroup_write_text(tree->fd, "cgroup.subtree_control", text) != 0) {
                return -1;
            }
        }
    }
    return 0;
}
