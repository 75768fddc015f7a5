#include "store/objects/internal.h"

#include <string.h>

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;
static CURLcode curl_ready;

static void curl_start(void)
{
    curl_ready = curl_global_init(CURL_GLOBAL_DEFAULT);
}

static char *copy_of(const char *text, bool *failed)
{
    char *copy = text == NULL ? NULL : strdup(text);

    *failed |= text != NULL && copy == NULL;
    return copy;
}

static int copy_config(struct objects *o, const struct objects_config *config)
{
    const struct objects_credentials *c = &config->credentials;
    bool failed = false;

    o->place.endpoint = copy_of(config->endpoint, &failed);
    o->place.bucket = copy_of(config->bucket, &failed);
    o->place.path_style = config->path_style;
    o->region = copy_of(config->region, &failed);
    o->ca_file = copy_of(config->ca_file, &failed);
    o->credentials.access_key = copy_of(c->access_key, &failed);
    o->credentials.secret_key = copy_of(c->secret_key, &failed);
    o->credentials.session_token = copy_of(c->session_token, &failed);
    o->attempts = config->attempts;
    o->stall_s = config->stall_s;
    o->multipart_bytes = config->multipart_bytes;
    o->part_bytes = config->part_bytes;
    o->parallel = config->parallel;
    if (asprintf(&o->sigv4, "aws:amz:%s:s3", config->region) < 0) {
        o->sigv4 = NULL;
        failed = true;
    }
    return failed ? -1 : 0;
}

int objects_new(const struct objects_config *config, struct objects **out, struct error *err)
{
    struct objects *o;

    pthread_once(&curl_once, curl_start);
    if (curl_ready != CURLE_OK) {
        return error_set(err, ERROR_INTERNAL, "libcurl does not start");
    }
    if (!objects_endpoint_is_valid(config->endpoint)) {
        return error_set(err, ERROR_INVALID_REQUEST,
                         "the endpoint of the shared store must be http[s]://HOST[:PORT]");
    }
    o = calloc(1, sizeof(*o));
    if (o == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    pthread_mutex_init(&o->lock, NULL);
    if (copy_config(o, config) != 0) {
        objects_free(o);
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    *out = o;
    return 0;
}

void objects_free(struct objects *o)
{
    if (o == NULL) {
        return;
    }
    for (unsigned i = 0; i < o->idle_count; i++) {
        curl_easy_cleanup(o->idle[i]);
    }
    objects_credentials_done(&o->credentials);
    free((char *)(uintptr_t)o->place.endpoint);
    free((char *)(uintptr_t)o->place.bucket);
    free(o->region);
    free(o->ca_file);
    free(o->sigv4);
    pthread_mutex_destroy(&o->lock);
    free(o);
}
