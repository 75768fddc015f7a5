#include "workspace/list.h"

#include "base/utf8.h"
#include "workspace/json_text.h"

#include <stdbool.h>
#include <string.h>

static int put_bytes(struct buf *out, const char *key, const char *bytes)
{
    size_t len = strlen(bytes);
    bool utf8 = utf8_is_valid(bytes, len);
    if (buf_addf(out, "\"%s%s\":", key, utf8 ? "" : "Base64") != 0) {
        return -1;
    }
    return utf8 ? workspace_json_put_string(out, bytes, len)
                : workspace_json_put_base64(out, bytes, len);
}

static const char *type_name(enum workspace_entry_type type)
{
    switch (type) {
    case WORKSPACE_DIRECTORY: return "directory";
    case WORKSPACE_FILE: return "file";
    case WORKSPACE_SYMLINK: return "symlink";
    case WORKSPACE_HARDLINK: return "hardlink";
    default: return "special";
    }
}

int workspace_list_line(struct buf *out, const struct workspace_entry *entry, const char *digest)
{
    if (buf_add_char(out, '{') != 0 || put_bytes(out, "path", entry->path) != 0 ||
        buf_addf(out, ",\"type\":\"%s\",\"mode\":%u", type_name(entry->type),
                 entry->mode & 01777U) != 0) {
        return -1;
    }
    if (digest != NULL && buf_addf(out, ",\"size\":%lld,\"sha256\":\"%s\"", (long long)entry->size,
                                   digest + strlen("sha256:")) != 0) {
        return -1;
    }
    if (entry->target != NULL &&
        (buf_add_char(out, ',') != 0 || put_bytes(out, "target", entry->target) != 0)) {
        return -1;
    }
    return buf_add_str(out, "}\n");
}
