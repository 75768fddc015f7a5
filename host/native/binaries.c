#include "host/native/native_internal.h"

#include "base/embed.h"

EMBED(shim, EXECHOST_SHIM_FILE);

const void *native_shim_binary(size_t *len)
{
    *len = (size_t)(shim_end - shim_start);
    return shim_start;
}
