#include "server/http/exchange.h"

int guard_choose(struct http_exchange *x, struct error *err)
{
    const struct http_guard *guard = x->server->guard;

    return guard != NULL ? guard->choose(x, &x->guarded, err) : 0;
}

bool guard_is_due(const struct http_exchange *x)
{
    return x->guard_state != NULL && !x->guard_left && x->reply.status != 0;
}

void guard_leave(struct http_exchange *x)
{
    void *state = TAKE_PTR(x->guard_state);

    x->guard_left = true;
    x->server->guard->leave(x, state);
}

void guard_done(struct http_exchange *x)
{
    if (x->guard_state != NULL) {
        x->guard_done(x->guard_state);
        x->guard_state = NULL;
    }
}

void http_set_guard_state(struct http_exchange *x, void *state, void (*done)(void *))
{
    guard_done(x);
    x->guard_state = state;
    x->guard_done = done;
}

void *http_guard_state(const struct http_exchange *x)
{
    return x->guard_state;
}

void http_handle(struct http_exchange *x)
{
    x->match.route->handler(x);
}

void http_job(struct http_exchange *x, http_handler job)
{
    x->job = job;
}

void http_answer(const struct http_exchange *x, struct http_answer *out)
{
    const struct reply *r = &x->reply;

    *out = (struct http_answer){
        .status = r->status,
        .code = r->code,
        .type = r->type,
        .data = r->data,
        .len = r->len,
        .in_memory = reply_is_in_memory(r),
    };
}

bool http_answer_header(const struct http_exchange *x, unsigned index, const char **name,
                        const char **value)
{
    if (index >= x->reply.header_count) {
        return false;
    }
    *name = x->reply.headers[index].name;
    *value = x->reply.headers[index].value;
    return true;
}
