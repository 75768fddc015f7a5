#include "base/fault.h"

#ifdef EXECHOST_FAULTS

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>

enum { ARMED_MAX = 16, HANG_SECONDS = 600, SPEC_MAX = 4096 };
enum { ACTION_KILL = -1, ACTION_HANG = -2 };

struct armed {
    const char *name;
    long nth; /* 0: every time */
    long hits;
    int action; /* an errno, or ACTION_ */
};

static pthread_once_t fault_once = PTHREAD_ONCE_INIT;
static pthread_mutex_t fault_mutex = PTHREAD_MUTEX_INITIALIZER;
static char fault_spec[SPEC_MAX];
static struct armed fault_armed[ARMED_MAX];
static size_t fault_armed_count;
static int fault_list_fd = -1;

static const struct {
    const char *name;
    int action;
} FAULT_ACTIONS[] = {
    {"kill", ACTION_KILL},
    {"hang", ACTION_HANG},
    {"EIO", EIO},
    {"ENOSPC", ENOSPC},
    {"EPIPE", EPIPE},
    {"ENOMEM", ENOMEM},
    {"EAGAIN", EAGAIN},
    {"EINTR", EINTR},
    {"EACCES", EACCES},
    {"EPERM", EPERM},
    {"ENOENT", ENOENT},
    {"EEXIST", EEXIST},
    {"EBUSY", EBUSY},
    {"EDQUOT", EDQUOT},
    {"EMFILE", EMFILE},
    {"ENFILE", ENFILE},
    {"EROFS", EROFS},
    {"EINVAL", EINVAL},
    {"ETIMEDOUT", ETIMEDOUT},
    {"ECONNREFUSED", ECONNREFUSED},
    {"ECONNRESET", ECONNRESET},
};

/* A misspelt fault would make a test pass that tested nothing. */
static void refuse(const char *what)
{
    log_error("EXECHOST_FAULT is not understood", "part", what, NULL);
    abort();
}

static int action_of(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(FAULT_ACTIONS); i++) {
        if (strcmp(FAULT_ACTIONS[i].name, name) == 0) {
            return FAULT_ACTIONS[i].action;
        }
    }
    refuse(name);
    return 0;
}

static void arm_one(char *part)
{
    struct armed *armed = &fault_armed[fault_armed_count];
    char *nth = strchr(part, ':');
    char *action = nth == NULL ? NULL : strchr(nth + 1, ':');
    char *end = NULL;

    if (action == NULL || fault_armed_count == ARMED_MAX) {
        refuse(part);
        return;
    }
    *nth++ = '\0';
    *action++ = '\0';
    armed->name = part;
    if (strcmp(nth, "*") != 0) {
        armed->nth = strtol(nth, &end, 10);
        if (*nth == '\0' || *end != '\0' || armed->nth < 1) {
            refuse(nth);
        }
    }
    armed->action = action_of(action);
    fault_armed_count++;
}

static void fault_init(void)
{
    const char *spec = getenv("EXECHOST_FAULT");
    const char *list = getenv("EXECHOST_FAULT_LIST");
    char *rest = fault_spec;
    char *part;

    if (list != NULL && *list != '\0') {
        fault_list_fd = open(list, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    }
    if (spec == NULL || *spec == '\0') {
        return;
    }
    if (strlen(spec) >= sizeof(fault_spec)) {
        refuse("too long");
        return;
    }
    memcpy(fault_spec, spec, strlen(spec) + 1);
    while ((part = strsep(&rest, ",")) != NULL) {
        arm_one(part);
    }
}

/* With the mutex held. */
static void note_visit(const char *name)
{
    char line[128];
    int len;

    if (fault_list_fd < 0) {
        return;
    }
    len = snprintf(line, sizeof(line), "%s\n", name);
    if (len > 0 && (size_t)len < sizeof(line) && write(fault_list_fd, line, (size_t)len) != len) {
        refuse("EXECHOST_FAULT_LIST cannot be written");
    }
}

static int find_action(const char *name)
{
    int action = 0;

    pthread_mutex_lock(&fault_mutex);
    note_visit(name);
    for (size_t i = 0; i < fault_armed_count && action == 0; i++) {
        struct armed *armed = &fault_armed[i];

        if (strcmp(armed->name, name) == 0) {
            armed->hits++;
            action = armed->nth == 0 || armed->nth == armed->hits ? armed->action : 0;
        }
    }
    pthread_mutex_unlock(&fault_mutex);
    return action;
}

int fault_point(const char *name)
{
    int action;

    pthread_once(&fault_once, fault_init);
    action = find_action(name);
    if (action == ACTION_KILL) {
        kill(getpid(), SIGKILL);
        pause();
    }
    if (action == ACTION_HANG) {
        sleep(HANG_SECONDS);
    }
    return action > 0 ? action : 0;
}

#endif
