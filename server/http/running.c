/* What is asked of a server that runs, and changed of it. */
#include "server/http/exchange.h"

void http_server_load(struct http_server *s, struct http_load *out)
{
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);

    out->connections = info != NULL ? info->num_connections : 0;
    out->streams = atomic_load(&s->streams);
    pthread_mutex_lock(&s->lock);
    out->requests = s->exchanges;
    pthread_mutex_unlock(&s->lock);
}

int http_server_set_tokens(struct http_server *s, const struct token *tokens, size_t count,
                           const struct quotas *quotas, struct error *err)
{
    struct token_set *set = NULL;
    int result;

    pthread_mutex_lock(&s->token_lock);
    if (token_set_is_open(s->tokens) != (count == 0)) {
        result = error_set(err, ERROR_INVALID_REQUEST,
                           "whether there are tokens can only be changed by a new start");
    } else {
        result = token_set_new(tokens, count, quotas, s->tokens, &set, err);
    }
    if (result == 0) {
        token_set_unref(s->tokens);
        s->tokens = set;
    }
    pthread_mutex_unlock(&s->token_lock);
    return result;
}

int http_server_reload_tls(struct http_server *s, struct error *err)
{
    return s->tls != NULL ? tls_reload(s->tls, err) : 0;
}
