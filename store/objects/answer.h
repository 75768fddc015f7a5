/* Inside the module: the XML that a store answers with, as far as it is of use here. Pure; any
 * thread. Unknown elements are passed over; a document type is refused. */
#ifndef EXECHOST_STORE_OBJECTS_ANSWER_H
#define EXECHOST_STORE_OBJECTS_ANSWER_H

#include "store/objects/objects.h"

enum { ANSWER_NAME_MAX = 64, ANSWER_ID_MAX = 1024 };

struct objects_answer {
    char root[ANSWER_NAME_MAX];
    char code[ANSWER_NAME_MAX];    /* of an Error, else "" */
    char upload_id[ANSWER_ID_MAX]; /* of a created upload */
    struct objects_list list;      /* Contents or Upload */
    char next_key[ANSWER_ID_MAX];  /* of a list of uploads that goes on */
    char next_upload[ANSWER_ID_MAX];
};

/* -1 when it is no well-formed document, is larger than what is kept of it, or memory is out;
 * `out` is empty then. */
int objects_answer_parse(const char *text, size_t len, struct objects_answer *out) WARN_UNUSED;
void objects_answer_done(struct objects_answer *a);

#endif
