/* Provision: a container is made, checked, started, read back, filled; whatever fails, it goes
 * again. */
#include "base/clock.h"
#include "host/docker/docker_internal.h"

#include <string.h>

enum {
    SLACK_MS =
        2000, /* the service ends an execution at its deadline; the inside deadline is later */
    LOAD_SLACK_MS = 4000, /* what a quick load may take of that without a new deadline being set */
    SETTLE_MS = 100,      /* an image's first container is looked at again after so long */
    CREATE_TRIES = 2,
};

/* One provision on its way. */
struct attempt {
    struct docker_host *h;
    const struct host_provision_plan *plan;
    struct workspace_reader *archive;
    struct host_identity id;
    struct image_facts image;
    json_t *body;
    char *name;
    char container[CONTAINER_ID_SIZE];
    struct container_handle handle;
    int64_t started_mono;
    int64_t sleep_s;
    int64_t load_timeout_ms; /* for all of it */
    int64_t deadline_mono_ms;
    bool sent;             /* the engine may have made something */
    bool doubtful;         /* it may do so yet */
    const char *suspected; /* what the image seems to lack */
};

static bool has_load(const struct attempt *a)
{
    return a->archive != NULL || a->plan->workspace == HOST_WORKSPACE_GIT;
}

static int64_t ceil_s(int64_t ms)
{
    return (ms + 999) / 1000;
}

static bool sets_home(char *const *environment)
{
    for (; environment != NULL && *environment != NULL; environment++) {
        if (strncmp(*environment, "HOME=", 5) == 0) {
            return true;
        }
    }
    return false;
}

/* Long enough for the load and the runtime behind a quick one; after a slow load it is set anew. */
static int64_t first_sleep_s(const struct attempt *a)
{
    int64_t runtime = a->plan->limits.runtime_ms;
    int64_t least;

    if (!has_load(a)) {
        return ceil_s(runtime + SLACK_MS);
    }
    least = a->load_timeout_ms + SLACK_MS;
    return ceil_s(runtime + LOAD_SLACK_MS > least ? runtime + LOAD_SLACK_MS : least);
}

static int describe(struct attempt *a, struct error *err)
{
    const struct host_provision_plan *plan = a->plan;
    struct container_spec spec = {
        .instance = a->h->instance,
        .id = a->id,
        .image = a->image.id,
        .search_path = a->image.search_path,
        .limits = &plan->limits,
        .environment = plan->environment,
        .set_home = !a->image.has_home && !sets_home(plan->environment),
        .owner_id = plan->owner_id,
        .fencing_token = plan->fencing_token,
        .uid = a->h->uid,
        .gid = a->h->gid,
        .shm_bytes_max = a->h->shm_bytes_max,
        .deadline_wall_ms = clock_wall_ms() + plan->limits.runtime_ms,
    };

    a->sleep_s = first_sleep_s(a);
    spec.sleep_s = a->sleep_s;
    json_decref(a->body);
    a->body = container_body(&spec, err);
    return a->body != NULL ? 0 : -1;
}

/* Between two steps: the engine's calls are not cut short, for what they began would be done all
 * the same. */
static int check_progress(const struct attempt *a, struct error *err)
{
    if (cancel_fired(a->plan->cancel)) {
        return error_set(err, ERROR_RUNTIME, "interrupted");
    }
    if (clock_mono_ms() > a->deadline_mono_ms) {
        return error_set(err, ERROR_TIMEOUT, "provisioning took longer than %lld ms",
                         (long long)a->load_timeout_ms);
    }
    return 0;
}

/* --- create --- */

/* What bears the name: 1 when it is a leftover of this very execution, which then is removed. */
static int clear_name(struct attempt *a, struct error *err)
{
    static const struct docker_call call = {.verb = "conflict", .method = "GET"};
    _cleanup_answer_ struct engine_answer answer = {0};
    const json_t *labels;

    if (docker_call(a->h, &call, &answer, err, "/containers/%s/json", a->name) < 0) {
        return -1;
    }
    if (answer.status == 404) {
        return 1;
    }
    labels = json_object_get(json_object_get(answer.json, "Config"), "Labels");
    if (!container_labels_match(labels, a->h->instance, &a->id)) {
        return 0;
    }
    return docker_remove_identity(a->h, &a->id, err) < 0 ? -1 : 1;
}

/* 0: made; 1: worth another try; -1. */
static int judge_create(struct attempt *a, const struct engine_answer *answer, struct error *err)
{
    static const struct docker_call call = {.verb = "create"};
    const char *id = json_string_value(json_object_get(answer->json, "Id"));
    int cleared;

    switch (answer->status) {
    case 201:
        if (id == NULL || !container_id_valid(id)) {
            return error_set(err, ERROR_RUNTIME, "the engine names no container that it made");
        }
        memcpy(a->container, id, sizeof(a->container));
        return 0;
    case 404:
        images_forget(a->h->images, a->plan->image);
        image_facts_done(&a->image);
        if (images_resolve(a->h->images, a->plan->image, a->plan->cancel, &a->image, err) < 0 ||
            describe(a, err) < 0) {
            return -1;
        }
        return 1;
    case 409:
        cleared = clear_name(a, err);
        if (cleared == 0) {
            a->sent = false;
            return error_set(err, ERROR_RUNTIME,
                             "a container named %s is there that is not this execution's", a->name);
        }
        return cleared;
    default: return docker_refused(err, &call, answer);
    }
}

/* Not interrupted: a create that nobody waits for would be made all the same. */
static int create_once(struct attempt *a, struct error *err)
{
    _cleanup_answer_ struct engine_answer answer = {0};
    _cleanup_buf_ struct buf path;
    bool sent = false;
    struct engine_request request = {
        .verb = "create", .method = "POST", .body = a->body, .sent = &sent};

    buf_init(&path, 4096);
    if (buf_add_str(&path, "/containers/create?name=") < 0 || engine_escape(&path, a->name) < 0) {
        return error_set(err, ERROR_INTERNAL, "the container's name is too long");
    }
    request.path = buf_str(&path);
    if (engine_call(a->h->engine, &request, &answer, err) < 0) {
        a->sent = sent;
        a->doubtful = sent;
        return -1;
    }
    a->sent = true;
    return judge_create(a, &answer, err);
}

static int create(struct attempt *a, struct error *err)
{
    for (int try = 1;; try++) {
        int result = create_once(a, err);

        if (result <= 0) {
            return result < 0 ? error_in_phase(err, PHASE_CREATE)
                              : observer_add(a->h->observer, a->container, &a->id, err);
        }
        if (try == CREATE_TRIES) {
            error_set(err, ERROR_RUNTIME, "the engine refuses the container again and again");
            return error_in_phase(err, PHASE_CREATE);
        }
    }
}

/* --- what the image must have --- */

/* 1: there, 0: not. */
static int has_file(struct attempt *a, const char *dir, size_t len, const char *name,
                    struct error *err)
{
    static const struct docker_call call = {.verb = "look_inside", .method = "HEAD"};
    _cleanup_answer_ struct engine_answer answer = {0};
    _cleanup_buf_ struct buf path;
    _cleanup_buf_ struct buf escaped;

    buf_init(&path, 8192);
    buf_init(&escaped, 32 * 1024);
    if (buf_add(&path, dir, len) < 0 || buf_addf(&path, "/%s", name) < 0 ||
        engine_escape(&escaped, buf_str(&path)) < 0) {
        return 0;
    }
    if (docker_call(a->h, &call, &answer, err, "/containers/%s/archive?path=%s", a->container,
                    buf_str(&escaped)) < 0) {
        return -1;
    }
    return answer.status == 200 ? 1 : 0;
}

static int find_sleep(struct attempt *a, struct error *err)
{
    const char *path = a->image.search_path;

    while (*path != '\0') {
        size_t len = strcspn(path, ":");
        int found = has_file(a, path, len, "sleep", err);

        if (found != 0) {
            return found;
        }
        path += len + (path[len] == ':' ? 1 : 0);
    }
    return 0;
}

static int refuse_image(struct attempt *a, const char *lacks, struct error *err)
{
    images_prove(a->h->images, a->image.id, lacks);
    error_set_field(err, ERROR_INVALID_REQUEST, "/image", "%s", lacks);
    return error_in_phase(err, PHASE_START);
}

/* Only before an image's first start. A shell may have sleep built in, so that its absence on the
 * search path is proven by the container's end only. */
static int look_for_programs(struct attempt *a, struct error *err)
{
    int found;

    if (a->image.proven) {
        return 0;
    }
    found = has_file(a, "/bin", 4, "sh", err);
    if (found == 0) {
        return refuse_image(a, "the image has no /bin/sh", err);
    }
    if (found > 0) {
        found = find_sleep(a, err);
    }
    a->suspected = found == 0 ? "the image has no sleep on its search path" : NULL;
    return found < 0 ? -1 : 0;
}

/* --- start and read back --- */

static int start(struct attempt *a, struct error *err)
{
    static const struct docker_call call = {.verb = "start", .method = "POST"};
    _cleanup_answer_ struct engine_answer answer = {0};

    a->started_mono = clock_mono_ms();
    if (docker_call(a->h, &call, &answer, err, "/containers/%s/start", a->container) < 0) {
        return error_in_phase(err, PHASE_START);
    }
    if (answer.status != 204) {
        docker_refused(err, &call, &answer);
        return error_in_phase(err, PHASE_START);
    }
    return 0;
}

static int read_back(struct attempt *a, struct error *err)
{
    static const struct docker_call call = {.verb = "read_back", .method = "GET"};
    _cleanup_answer_ struct engine_answer answer = {0};

    if (docker_call(a->h, &call, &answer, err, "/containers/%s/json", a->container) < 0) {
        return -1;
    }
    if (answer.status == 404) {
        error_set(err, ERROR_RUNTIME, "the container ended right after its start");
        return error_in_phase(err, PHASE_START);
    }
    if (answer.status != 200) {
        return docker_refused(err, &call, &answer);
    }
    return container_verify(a->body, answer.json, &a->handle, err);
}

static int start_and_check(struct attempt *a, struct error *err)
{
    int result;

    if (look_for_programs(a, err) < 0 || start(a, err) < 0) {
        return -1;
    }
    result = read_back(a, err);
    if (!a->image.proven && result == 0) {
        usleep(SETTLE_MS * 1000);
        result = read_back(a, err);
    }
    if (result < 0 && err->phase == PHASE_START && a->suspected != NULL) {
        return refuse_image(a, a->suspected, err);
    }
    if (!a->image.proven && result == 0) {
        images_prove(a->h->images, a->image.id, NULL);
    }
    return result;
}

/* --- fill --- */

/* The inside deadline is to come a moment after the outside one, whatever the load took. */
static int rearm(struct attempt *a, struct error *err)
{
    int64_t left = a->sleep_s * 1000 - (clock_mono_ms() - a->started_mono);
    int64_t later = left - a->plan->limits.runtime_ms;

    if (later >= SLACK_MS / 2 && later <= LOAD_SLACK_MS + 1000) {
        return 0;
    }
    return docker_guard_arm(a->h, a->container, ceil_s(a->plan->limits.runtime_ms + SLACK_MS), err);
}

static int fill(struct attempt *a, struct error *err)
{
    if (!has_load(a)) {
        return 0;
    }
    if (docker_load_workspace(a->h, a->container, a->plan, a->archive, a->deadline_mono_ms, err) <
        0) {
        return error_in_phase(err, a->archive != NULL ? PHASE_LOAD : PHASE_IMPORT);
    }
    return rearm(a, err);
}

/* --- the whole --- */

static int run(struct attempt *a, struct error *err)
{
    if (images_resolve(a->h->images, a->plan->image, a->plan->cancel, &a->image, err) < 0 ||
        describe(a, err) < 0 || check_progress(a, err) < 0 || create(a, err) < 0 ||
        check_progress(a, err) < 0 || start_and_check(a, err) < 0 || check_progress(a, err) < 0 ||
        fill(a, err) < 0 || check_progress(a, err) < 0) {
        return -1;
    }
    if (!observer_publish(a->h->observer, a->container)) {
        error_set(err, ERROR_RUNTIME, "the container ended while it was being prepared");
        return error_in_phase(err, PHASE_START);
    }
    return 0;
}

/* Nothing may stay. What can't be removed, or may come into being yet, is the caller's to try
 * again. */
static void undo(struct attempt *a, struct error *err)
{
    struct error cleanup = ERROR_INIT;
    struct error first = *err;

    if (!a->sent) {
        return;
    }
    if (a->container[0] != '\0') {
        observer_remove(a->h->observer, a->container);
    }
    if (docker_remove_identity(a->h, &a->id, &cleanup) == 0) {
        if (!a->doubtful) {
            return;
        }
        error_set(&cleanup, ERROR_RUNTIME, "the engine may still be making the container");
    }
    error_set(err, first.code == ERROR_HOST_UNAVAILABLE ? ERROR_HOST_UNAVAILABLE : ERROR_RUNTIME,
              "the execution was not made, and not all of it could be removed");
    error_in_phase(err, PHASE_CLEANUP);
    error_add_cause(err, &first);
    error_add_cause(err, &cleanup);
}

static int hand_out(struct attempt *a, struct host_provisioned *out, struct error *err)
{
    char *handle = container_handle_format(&a->handle);

    if (handle == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    out->handle = handle;
    out->image_digests = TAKE_PTR(a->image.digests);
    return 0;
}

int docker_provision(struct docker_host *h, const struct host_provision_plan *plan,
                     struct workspace_reader *archive, struct host_provisioned *out,
                     struct error *err)
{
    struct attempt a = {
        .h = h,
        .plan = plan,
        .archive = archive,
        .id = host_provision_plan_identity(plan),
        .load_timeout_ms = plan->load_timeout_ms > 0 ? plan->load_timeout_ms : h->load_timeout_ms,
    };
    int result;

    a.deadline_mono_ms = clock_mono_ms() + a.load_timeout_ms;
    a.name = container_name(h->instance, &a.id);
    if (a.name == NULL) {
        return error_set(err, ERROR_INTERNAL, "the container's name is too long");
    }
    result = run(&a, err);
    if (result == 0) {
        result = hand_out(&a, out, err);
    }
    if (result < 0) {
        undo(&a, err);
    }
    image_facts_done(&a.image);
    json_decref(a.body);
    free(a.name);
    return result;
}
