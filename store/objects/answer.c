#include "store/objects/answer.h"

#include "base/clock.h"

#include <errno.h>
#include <expat.h>
#include <string.h>

enum { TEXT_MAX = 2048, DEPTH_MAX = 16, ITEMS_MAX = 2000 };

struct decoder {
    XML_Parser parser;
    struct objects_answer *out;
    struct objects_item *item; /* the one that is open */
    int depth;
    char text[TEXT_MAX + 1]; /* of the innermost element */
    size_t len;
    bool failed;
};

void objects_list_done(struct objects_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->items[i].key);
        free(list->items[i].upload_id);
    }
    free(list->items);
    *list = (struct objects_list){0};
}

void objects_answer_done(struct objects_answer *a)
{
    objects_list_done(&a->list);
    *a = (struct objects_answer){0};
}

static void give_up(struct decoder *d)
{
    d->failed = true;
    (void)XML_StopParser(d->parser, XML_FALSE);
}

static void open_item(struct decoder *d)
{
    struct objects_list *list = &d->out->list;
    struct objects_item *items;

    if (list->count == ITEMS_MAX) {
        give_up(d);
        return;
    }
    items = reallocarray(list->items, list->count + 1, sizeof(*items));
    if (items == NULL) {
        give_up(d);
        return;
    }
    list->items = items;
    d->item = &items[list->count++];
    *d->item = (struct objects_item){.size = -1};
}

static void on_start(void *ctx, const XML_Char *name, const XML_Char **attributes)
{
    struct decoder *d = ctx;

    (void)attributes;
    d->len = 0;
    if (d->depth == DEPTH_MAX) {
        give_up(d);
        return;
    }
    if (d->depth == 0) {
        snprintf(d->out->root, sizeof(d->out->root), "%s", name);
    } else if (d->depth == 1 && (strcmp(name, "Contents") == 0 || strcmp(name, "Upload") == 0)) {
        open_item(d);
    }
    d->depth++;
}

/* A text that does not fit is none of ours, but for those that are cut on purpose. */
static void keep(struct decoder *d, char *to, size_t size)
{
    if (d->len >= size) {
        give_up(d);
        return;
    }
    memcpy(to, d->text, d->len + 1);
}

static void keep_copy(struct decoder *d, char **to)
{
    free(*to);
    *to = strdup(d->text);
    if (*to == NULL) {
        give_up(d);
    }
}

static int64_t number_of(const char *text)
{
    char *end;
    long long value;

    errno = 0;
    value = strtoll(text, &end, 10);
    return errno != 0 || end == text || *end != '\0' || value < 0 ? -1 : value;
}

static void item_field(struct decoder *d, const char *name)
{
    struct objects_item *item = d->item;

    if (strcmp(name, "Key") == 0) {
        keep_copy(d, &item->key);
    } else if (strcmp(name, "UploadId") == 0) {
        keep_copy(d, &item->upload_id);
    } else if (strcmp(name, "Size") == 0) {
        item->size = number_of(d->text);
    } else if (strcmp(name, "LastModified") == 0 || strcmp(name, "Initiated") == 0) {
        if (clock_parse(d->text, &item->modified) != 0) {
            item->modified = 0;
        }
    }
}

static void field(struct decoder *d, const char *name)
{
    struct objects_answer *out = d->out;

    if (strcmp(name, "Code") == 0) {
        keep(d, out->code, sizeof(out->code));
    } else if (strcmp(name, "UploadId") == 0) {
        keep(d, out->upload_id, sizeof(out->upload_id));
    } else if (strcmp(name, "NextKeyMarker") == 0) {
        keep(d, out->next_key, sizeof(out->next_key));
    } else if (strcmp(name, "NextUploadIdMarker") == 0) {
        keep(d, out->next_upload, sizeof(out->next_upload));
    } else if (strcmp(name, "IsTruncated") == 0) {
        out->list.more = strcmp(d->text, "true") == 0;
    }
}

static void on_end(void *ctx, const XML_Char *name)
{
    struct decoder *d = ctx;

    d->depth--;
    d->text[d->len] = '\0';
    if (d->depth == 1 && d->item != NULL &&
        (strcmp(name, "Contents") == 0 || strcmp(name, "Upload") == 0)) {
        if (d->item->key == NULL) {
            give_up(d); /* an item without a name can't be spoken of */
        }
        d->item = NULL;
    } else if (d->depth == 2 && d->item != NULL) {
        item_field(d, name);
    } else if (d->depth == 1) {
        field(d, name);
    }
    d->len = 0;
}

static void on_text(void *ctx, const XML_Char *text, int len)
{
    struct decoder *d = ctx;

    if ((size_t)len > TEXT_MAX - d->len) {
        give_up(d);
        return;
    }
    memcpy(d->text + d->len, text, (size_t)len);
    d->len += (size_t)len;
}

static void on_doctype(void *ctx, const XML_Char *name, const XML_Char *system,
                       const XML_Char *public, int internal)
{
    (void)name;
    (void)system;
    (void)public;
    (void)internal;
    give_up(ctx);
}

int objects_answer_parse(const char *text, size_t len, struct objects_answer *out)
{
    struct objects_answer answer = {0};
    struct decoder d = {.out = &answer};
    bool good;

    d.parser = XML_ParserCreate("UTF-8");
    if (d.parser == NULL || len > INT32_MAX) {
        XML_ParserFree(d.parser);
        return -1;
    }
    XML_SetUserData(d.parser, &d);
    XML_SetElementHandler(d.parser, on_start, on_end);
    XML_SetCharacterDataHandler(d.parser, on_text);
    XML_SetStartDoctypeDeclHandler(d.parser, on_doctype);
    good = XML_Parse(d.parser, text, (int)len, 1) == XML_STATUS_OK && !d.failed;
    XML_ParserFree(d.parser);
    if (!good) {
        objects_answer_done(&answer);
        return -1;
    }
    *out = answer;
    return 0;
}
