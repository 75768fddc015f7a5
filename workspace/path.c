#include "workspace/path.h"

#include "workspace/entry.h"

#include <limits.h>
#include <string.h>

const char *workspace_path_fault(const char *path)
{
    size_t len = strlen(path);
    if (len == 0) {
        return "empty name";
    }
    if (path[0] == '/') {
        return "absolute name";
    }
    if (len > WORKSPACE_PATH_MAX) {
        return "name longer than 4095 bytes";
    }
    const char *part = path;
    for (;;) {
        size_t n = strcspn(part, "/");
        if (n == 0) {
            return "empty component in the name";
        }
        if (n > NAME_MAX) {
            return "component of the name longer than 255 bytes";
        }
        if (n == 1 && part[0] == '.') {
            return "\".\" in the name";
        }
        if (n == 2 && part[0] == '.' && part[1] == '.') {
            return "\"..\" in the name";
        }
        if (part[n] == '\0') {
            return NULL;
        }
        part += n + 1;
    }
}

static int rank(char c)
{
    return c == '/' ? 0 : (unsigned char)c + 1;
}

int workspace_path_compare(const char *a, const char *b)
{
    while (*a != '\0' && *a == *b) {
        a++;
        b++;
    }
    if (*a == '\0' || *b == '\0') {
        return (*a != '\0') - (*b != '\0');
    }
    return rank(*a) - rank(*b);
}

struct workspace_path_text workspace_path_show(const char *path)
{
    struct workspace_path_text out;
    size_t used = 0;
    size_t i = 0;
    for (; path[i] != '\0' && used + 8 < sizeof(out.text); i++) {
        unsigned char c = (unsigned char)path[i];
        if (c >= 0x20 && c < 0x7f && c != '\\') {
            out.text[used++] = (char)c;
        } else {
            used += (size_t)snprintf(out.text + used, sizeof(out.text) - used, "\\x%02x", c);
        }
    }
    snprintf(out.text + used, sizeof(out.text) - used, "%s", path[i] != '\0' ? "..." : "");
    return out;
}
