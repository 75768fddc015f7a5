#include "host/docker/process_mux.h"

#include "guest/protocol.h"

#include <string.h>

static void add_text(struct process_mux *m, const uint8_t *data, size_t len)
{
    for (size_t i = 0; i < len && m->text_len < PROCESS_MUX_TEXT_MAX; i++) {
        uint8_t c = data[i];
        m->text[m->text_len++] = c >= 0x7f ? '?' : c < 0x20 ? ' ' : (char)c;
    }
    m->text[m->text_len] = '\0';
}

/* Takes up to the missing bytes of a part's head; returns how many. */
static size_t take_head(struct process_mux *m, const uint8_t *data, size_t len)
{
    size_t want = PROCESS_MUX_HEADER - m->head_have;
    size_t n = len < want ? len : want;
    memcpy(m->head + m->head_have, data, n);
    m->head_have += n;
    return n;
}

static int begin_part(struct process_mux *m)
{
    if (m->head[0] <= 2 && memcmp(m->head + 1, "\0\0\0", 3) == 0) {
        m->seen = true;
        m->left = guest_get_u32(m->head + 4);
        m->head_have = m->left == 0 ? 0 : m->head_have;
        return 0;
    }
    m->raw = true;
    add_text(m, m->head, sizeof(m->head));
    return m->seen ? -1 : 0;
}

/* A runtime that can't start the helper says so in its place, and no frame begins like text. */
static bool is_foreign(struct process_mux *m, uint8_t first)
{
    if (!m->spoken) {
        m->spoken = true;
        m->foreign = first != GUEST_FAILED && first != GUEST_DONE &&
                     (first < GUEST_ITEM || first > GUEST_COUNT);
    }
    return m->foreign;
}

ssize_t process_mux_unwrap(struct process_mux *m, uint8_t *data, size_t len)
{
    size_t kept = 0;
    for (size_t at = 0; at < len;) {
        if (m->raw) {
            add_text(m, data + at, len - at);
            break;
        }
        if (m->head_have < PROCESS_MUX_HEADER) {
            at += take_head(m, data + at, len - at);
            if (m->head_have == PROCESS_MUX_HEADER && begin_part(m) != 0) {
                return -1;
            }
            continue;
        }
        size_t n = len - at < m->left ? len - at : m->left;
        if (n > 0 && m->head[0] == 1 && !is_foreign(m, data[at])) {
            memmove(data + kept, data + at, n);
            kept += n;
        } else {
            add_text(m, data + at, n);
        }
        at += n;
        m->left -= (uint32_t)n;
        m->head_have = m->left == 0 ? 0 : m->head_have;
    }
    return (ssize_t)kept;
}
