#include "server/http/exchange.h"

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <string.h>

enum { CHAIN_MAX = 16, KEY_ID_MAX = 64 };

/* What was read at a time. Handshakes may still use what came before the newest. */
struct certificate {
    struct certificate *before;
    gnutls_pcert_st chain[CHAIN_MAX];
    unsigned count;
    gnutls_privkey_t key;
};

struct tls {
    char *certificate_path;
    char *key_path;
    pthread_mutex_t reloading;
    struct certificate *_Atomic newest;
};

/* libmicrohttpd gives its callback nothing to know its daemon by. */
static struct tls *_Atomic the_one;

static void certificate_free(struct certificate *c)
{
    for (unsigned i = 0; i < c->count; i++) {
        gnutls_pcert_deinit(&c->chain[i]);
    }
    if (c->key != NULL) {
        gnutls_privkey_deinit(c->key);
    }
    free(c);
}

static int fault(struct error *err, const char *field, const char *path, int rc)
{
    return error_set_field(err, ERROR_INVALID_REQUEST, field, "%s %s: %s", field, path,
                           gnutls_strerror(rc));
}

static int read_chain(struct certificate *c, const char *path, struct error *err)
{
    gnutls_datum_t text = {0};
    unsigned count = CHAIN_MAX;
    int rc = gnutls_load_file(path, &text);

    if (rc == GNUTLS_E_SUCCESS) {
        rc = gnutls_pcert_list_import_x509_raw(c->chain, &count, &text, GNUTLS_X509_FMT_PEM, 0);
    }
    gnutls_free(text.data);
    if (rc < 0) {
        return fault(err, "tls.certificate", path, rc);
    }
    c->count = count;
    return 0;
}

static int read_key(struct certificate *c, const char *path, struct error *err)
{
    gnutls_datum_t text = {0};
    int rc = gnutls_load_file(path, &text);

    if (rc == GNUTLS_E_SUCCESS) {
        rc = gnutls_privkey_init(&c->key);
    }
    if (rc == GNUTLS_E_SUCCESS) {
        rc = gnutls_privkey_import_x509_raw(c->key, &text, GNUTLS_X509_FMT_PEM, NULL, 0);
    }
    if (text.data != NULL) {
        gnutls_memset(text.data, 0, text.size);
    }
    gnutls_free(text.data);
    return rc < 0 ? fault(err, "tls.key", path, rc) : 0;
}

/* A pair that does not fit would fail every handshake. */
static int check_pair(const struct certificate *c, struct error *err)
{
    unsigned char ids[2][KEY_ID_MAX] = {0};
    size_t sizes[2] = {KEY_ID_MAX, KEY_ID_MAX};
    gnutls_pubkey_t of_key;
    int rc = gnutls_pubkey_init(&of_key);

    if (rc < 0) {
        return error_set(err, ERROR_INTERNAL, "TLS: %s", gnutls_strerror(rc));
    }
    rc = gnutls_pubkey_import_privkey(of_key, c->key, 0, 0);
    if (rc >= 0) {
        rc = gnutls_pubkey_get_key_id(of_key, GNUTLS_KEYID_USE_SHA256, ids[0], &sizes[0]);
    }
    if (rc >= 0) {
        rc = gnutls_pubkey_get_key_id(c->chain[0].pubkey, GNUTLS_KEYID_USE_SHA256, ids[1],
                                      &sizes[1]);
    }
    gnutls_pubkey_deinit(of_key);
    if (rc < 0 || sizes[0] != sizes[1] || memcmp(ids[0], ids[1], sizes[0]) != 0) {
        return error_set_field(err, ERROR_INVALID_REQUEST, "tls.key",
                               "tls.key is not the key of tls.certificate");
    }
    return 0;
}

static int certificate_read(const struct tls *t, struct certificate **out, struct error *err)
{
    struct certificate *c = calloc(1, sizeof(*c));

    if (c == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    if (read_chain(c, t->certificate_path, err) != 0 || read_key(c, t->key_path, err) != 0 ||
        check_pair(c, err) != 0) {
        certificate_free(c);
        return -1;
    }
    *out = c;
    return 0;
}

int tls_reload(struct tls *t, struct error *err)
{
    struct certificate *c = NULL;
    int result;

    pthread_mutex_lock(&t->reloading);
    result = certificate_read(t, &c, err);
    if (result == 0) {
        c->before = atomic_load(&t->newest);
        atomic_store(&t->newest, c);
    }
    pthread_mutex_unlock(&t->reloading);
    return result;
}

int tls_new(const char *certificate, const char *key, struct tls **out, struct error *err)
{
    struct tls *t = calloc(1, sizeof(*t));
    struct tls *none = NULL;

    if (t == NULL) {
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    pthread_mutex_init(&t->reloading, NULL);
    t->certificate_path = strdup(certificate);
    t->key_path = strdup(key);
    if (t->certificate_path == NULL || t->key_path == NULL) {
        tls_free(t);
        return error_set(err, ERROR_INTERNAL, "out of memory");
    }
    if (tls_reload(t, err) != 0) {
        tls_free(t);
        return -1;
    }
    if (!atomic_compare_exchange_strong(&the_one, &none, t)) {
        tls_free(t);
        return error_set(err, ERROR_INTERNAL, "a process has one server with TLS");
    }
    *out = t;
    return 0;
}

void tls_free(struct tls *t)
{
    struct tls *self = t;
    struct certificate *c;

    if (t == NULL) {
        return;
    }
    atomic_compare_exchange_strong(&the_one, &self, NULL);
    while ((c = atomic_load(&t->newest)) != NULL) {
        atomic_store(&t->newest, c->before);
        certificate_free(c);
    }
    free(t->certificate_path);
    free(t->key_path);
    pthread_mutex_destroy(&t->reloading);
    free(t);
}

/* NOLINTNEXTLINE(readability-function-size): the signature is GnuTLS's */
static int retrieve(gnutls_session_t session, const gnutls_datum_t *authorities,
                    int authority_count, const gnutls_pk_algorithm_t *algorithms,
                    int algorithm_count, gnutls_pcert_st **chain, unsigned *count,
                    gnutls_privkey_t *key)
{
    struct tls *t = atomic_load(&the_one);
    struct certificate *c = t != NULL ? atomic_load(&t->newest) : NULL;

    (void)session;
    (void)authorities;
    (void)authority_count;
    (void)algorithms;
    (void)algorithm_count;
    if (c == NULL) {
        return -1;
    }
    *chain = c->chain;
    *count = c->count;
    *key = c->key;
    return 0;
}

tls_retrieve tls_callback(void)
{
    return (tls_retrieve)retrieve;
}

ssize_t tls_send(void *session, const void *data, size_t len)
{
    return gnutls_record_send(session, data, len);
}
