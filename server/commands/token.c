#include "server/commands/commands.h"

#include "base/buf.h"
#include "base/digest.h"
#include "base/id.h"
#include "server/config_tokens.h"

#include <errno.h>
#include <getopt.h>
#include <string.h>
#include <sys/random.h>

enum { SECRET_BYTES = 32, TOKEN_SIZE = 4 + 2 * SECRET_BYTES + 1 };

static const char USAGE[] =
    "usage: exechost token [--tenant NAME] [--scopes read,write,ptc:untimed,admin]\n\n"
    "Prints a new random token, then the entry for \"tokens\" of the configuration that lets it\n"
    "in. The token is kept nowhere. Without options: tenant default, scopes read,write.\n";

static int make_token(char out[TOKEN_SIZE], struct error *err)
{
    unsigned char secret[SECRET_BYTES];
    int len = snprintf(out, TOKEN_SIZE, "exh_");

    if (getrandom(secret, sizeof(secret), 0) != (ssize_t)sizeof(secret)) {
        return error_set_errno(err, ERROR_INTERNAL, errno, "no random bytes");
    }
    for (int i = 0; i < SECRET_BYTES; i++) {
        len += snprintf(out + len, (size_t)(TOKEN_SIZE - len), "%02x", secret[i]);
    }
    return 0;
}

/* "read,write" as JSON strings; false when one is no scope. */
static bool print_scopes(char *list, struct buf *out)
{
    bool first = true;

    for (char *name; (name = strsep(&list, ",")) != NULL; first = false) {
        if (config_scope_from_name(name) == 0 ||
            buf_addf(out, "%s\"%s\"", first ? "" : ", ", name) != 0) {
            return false;
        }
    }
    return true;
}

static int print_token(const char *tenant, char *scopes)
{
    _cleanup_buf_ struct buf names;
    char token[TOKEN_SIZE];
    char digest[DIGEST_TEXT_SIZE];
    struct digest *d;
    struct error err = ERROR_INIT;

    buf_init(&names, 1024);
    if (!id_is_valid(tenant) || !print_scopes(scopes, &names)) {
        fputs(USAGE, stderr);
        return EXIT_USAGE;
    }
    if (make_token(token, &err) != 0) {
        return command_fail("token", &err);
    }
    d = digest_new();
    digest_update(d, token, strlen(token));
    digest_final(d, digest);
    digest_free(d);
    printf("%s\n{\"sha256\": \"%s\", \"tenant\": \"%s\", \"scopes\": [%s]}\n", token,
           strchr(digest, ':') + 1, tenant, buf_str(&names));
    return 0;
}

int command_token(int argc, char **argv)
{
    static const struct option options[] = {{"tenant", required_argument, NULL, 't'},
                                            {"scopes", required_argument, NULL, 's'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    static char both[] = "read,write";
    const char *tenant = "default";
    char *scopes = both;
    int option;

    optind = 1;
    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (option) {
        case 't': tenant = optarg; break;
        case 's': scopes = optarg; break;
        case 'h': fputs(USAGE, stdout); return 0;
        default: return EXIT_USAGE; /* getopt has complained */
        }
    }
    if (optind != argc) {
        fputs(USAGE, stderr);
        return EXIT_USAGE;
    }
    return print_token(tenant, scopes);
}
