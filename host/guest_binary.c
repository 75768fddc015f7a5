#include "host/guest_binary.h"

#include "base/embed.h"

EMBED(guest, EXECHOST_GUEST_FILE);

const void *guest_binary(size_t *len)
{
    *len = (size_t)(guest_end - guest_start);
    return guest_start;
}
