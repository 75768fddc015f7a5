#include "workspace/hashing.h"

void workspace_hashing_begin(struct workspace_hashing *h)
{
    workspace_hashing_done(h);
    h->digest = digest_new();
    h->done = 0;
}

static void fill(struct workspace_hashing *h, int64_t until)
{
    static const char zeros[64 * 1024];
    while (h->done < until) {
        int64_t n =
            until - h->done < (int64_t)sizeof(zeros) ? until - h->done : (int64_t)sizeof(zeros);
        digest_update(h->digest, zeros, (size_t)n);
        h->done += n;
    }
}

void workspace_hashing_add(struct workspace_hashing *h, int64_t offset, const void *data,
                           size_t len)
{
    fill(h, offset);
    digest_update(h->digest, data, len);
    h->done += (int64_t)len;
}

void workspace_hashing_end(struct workspace_hashing *h, int64_t size, char out[DIGEST_TEXT_SIZE])
{
    fill(h, size);
    digest_final(h->digest, out);
    workspace_hashing_done(h);
}

void workspace_hashing_done(struct workspace_hashing *h)
{
    digest_free(h->digest);
    h->digest = NULL;
}
