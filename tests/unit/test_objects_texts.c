/* What the object storage client reads and writes as text: URLs, credentials, XML answers. */
#include "store/objects/answer.h"
#include "store/objects/objects.h"
#include "store/objects/url.h"

#include "base/file.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

/* --- URLs --- */

static void expect_url(const struct objects_place *place, const char *key, const char *query,
                       const char *expected)
{
    _cleanup_buf_ struct buf url;

    buf_init(&url, 4096);
    assert_int_equal(objects_url(&url, place, key, query), 0);
    assert_string_equal(buf_str(&url), expected);
}

static void urls(void **state)
{
    const struct objects_place path = {"http://127.0.0.1:7480", "bucket", true};
    const struct objects_place host = {"https://s3.example.org", "bucket", false};

    (void)state;
    expect_url(&path, "", NULL, "http://127.0.0.1:7480/bucket/");
    expect_url(&path, "a/b.c-d_e~f", NULL, "http://127.0.0.1:7480/bucket/a/b.c-d_e~f");
    expect_url(&path, "a b/+%?", "x=1", "http://127.0.0.1:7480/bucket/a%20b/%2B%25%3F?x=1");
    expect_url(&host, "k\xc3\xa4", "", "https://bucket.s3.example.org/k%C3%A4");
    expect_url(&host, "../x", NULL, "https://bucket.s3.example.org/../x");
}

static void queries(void **state)
{
    _cleanup_buf_ struct buf query;

    (void)state;
    buf_init(&query, 4096);
    assert_int_equal(objects_url_query(&query, "prefix", "a/b c"), 0);
    assert_int_equal(objects_url_query(&query, "uploads", ""), 0);
    assert_string_equal(buf_str(&query), "prefix=a%2Fb%20c&uploads=");
}

static void endpoints(void **state)
{
    static const char *const good[] = {"http://127.0.0.1:7480", "https://s3.example.org",
                                       "http://[::1]:9000", "https://s3.eu-central-1.example"};
    static const char *const bad[] = {"",
                                      "s3.example.org",
                                      "ftp://s3.example.org",
                                      "http://",
                                      "http://user:secret@host",
                                      "http://host/path",
                                      "http://host?x",
                                      "http://host#x",
                                      "http://host name",
                                      "file:///etc/passwd"};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        assert_true(objects_endpoint_is_valid(good[i]));
    }
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        assert_false(objects_endpoint_is_valid(bad[i]));
    }
}

/* --- credentials --- */

static void credentials_of_a_text(void **state)
{
    static const char TEXT[] =
        "# ours\n[other]\naws_access_key_id = OTHER\n[default]\r\n"
        "aws_access_key_id=AKID\r\n  aws_secret_access_key =  se/cr+et= \n"
        "region = x\naws_session_token = tok\n[third]\naws_session_token=no\n";
    struct objects_credentials c;
    struct error err = ERROR_INIT;

    (void)state;
    assert_int_equal(objects_credentials_parse(TEXT, strlen(TEXT), &c, &err), 0);
    assert_string_equal(c.access_key, "AKID");
    assert_string_equal(c.secret_key, "se/cr+et=");
    assert_string_equal(c.session_token, "tok");
    objects_credentials_done(&c);
    assert_null(c.secret_key);
}

static void credentials_that_are_none(void **state)
{
    static const char *const texts[] = {
        "",
        "[default]\naws_access_key_id = A\n",
        "[default]\naws_secret_access_key = hidden-secret\n",
        "aws_access_key_id = A\naws_secret_access_key = hidden-secret\n",
        "[default]\nhidden-secret\n",
        "[default]\naws_access_key_id = A\naws_secret_access_key = hidden-secret more\n",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        struct objects_credentials c;
        struct error err = ERROR_INIT;

        assert_int_equal(objects_credentials_parse(texts[i], strlen(texts[i]), &c, &err), -1);
        assert_int_equal(err.code, ERROR_INVALID_REQUEST);
        assert_null(strstr(err.detail, "hidden"));
    }
}

static void credentials_of_a_file(void **state)
{
    static const char TEXT[] = "[default]\naws_access_key_id=A\naws_secret_access_key=B\n";
    char path[] = "/tmp/objects-XXXXXX";
    struct objects_credentials c;
    struct error err = ERROR_INIT;
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, TEXT, strlen(TEXT)), (ssize_t)strlen(TEXT));
    assert_int_equal(objects_credentials_load(path, &c, &err), 0);
    objects_credentials_done(&c);
    assert_int_equal(fchmod(fd, 0640), 0);
    assert_int_equal(objects_credentials_load(path, &c, &err), -1);
    assert_non_null(strstr(err.detail, "0600"));
    close(fd);
    unlink(path);
    assert_int_equal(objects_credentials_load(path, &c, &err), -1);
}

static void credentials_of_the_environment(void **state)
{
    struct objects_credentials c;
    struct error err = ERROR_INIT;

    (void)state;
    setenv("AWS_ACCESS_KEY_ID", "A", 1);
    unsetenv("AWS_SECRET_ACCESS_KEY");
    unsetenv("AWS_SESSION_TOKEN");
    assert_int_equal(objects_credentials_load(NULL, &c, &err), -1);
    assert_string_equal(err.detail, "AWS_SECRET_ACCESS_KEY is missing");
    setenv("AWS_SECRET_ACCESS_KEY", "B", 1);
    assert_int_equal(objects_credentials_load(NULL, &c, &err), 0);
    assert_string_equal(c.secret_key, "B");
    assert_null(c.session_token);
    objects_credentials_done(&c);
}

/* --- answers --- */

static void parse(const char *text, struct objects_answer *out)
{
    assert_int_equal(objects_answer_parse(text, strlen(text), out), 0);
}

static void an_error(void **state)
{
    struct objects_answer a;

    (void)state;
    parse("<?xml version=\"1.0\"?><Error><Code>NoSuchBucket</Code><Message>x</Message></Error>",
          &a);
    assert_string_equal(a.root, "Error");
    assert_string_equal(a.code, "NoSuchBucket");
    objects_answer_done(&a);
}

static void a_list_of_objects(void **state)
{
    struct objects_answer a;

    (void)state;
    parse(
        "<ListBucketResult xmlns=\"u\"><IsTruncated>true</IsTruncated><Contents><Key>a&amp;b</Key>"
        "<LastModified>2026-11-29T15:00:00.000Z</LastModified><Size>7</Size><Owner><ID>o</ID>"
        "</Owner></Contents><Contents><Key>c</Key><Size>x</Size></Contents></ListBucketResult>",
        &a);
    assert_true(a.list.more);
    assert_int_equal(a.list.count, 2);
    assert_string_equal(a.list.items[0].key, "a&b");
    assert_int_equal(a.list.items[0].size, 7);
    assert_int_equal(a.list.items[0].modified, 1795964400000);
    assert_int_equal(a.list.items[1].size, -1);
    objects_answer_done(&a);
}

static void uploads_under_way(void **state)
{
    struct objects_answer a;

    (void)state;
    parse("<ListMultipartUploadsResult><Upload><Key>k</Key><UploadId>2~u</UploadId><Initiated>"
          "2026-11-29T15:00:00Z</Initiated></Upload><NextKeyMarker>k</NextKeyMarker>"
          "<NextUploadIdMarker>m</NextUploadIdMarker><IsTruncated>false</IsTruncated>"
          "</ListMultipartUploadsResult>",
          &a);
    assert_int_equal(a.list.count, 1);
    assert_string_equal(a.list.items[0].upload_id, "2~u");
    assert_string_equal(a.next_key, "k");
    assert_string_equal(a.next_upload, "m");
    assert_false(a.list.more);
    objects_answer_done(&a);
    parse("<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>",
          &a);
    assert_string_equal(a.upload_id, "u");
    objects_answer_done(&a);
}

static void answers_that_are_none(void **state)
{
    static const char *const texts[] = {
        "",
        "<a>",
        "<a></b>",
        "plain",
        "<!DOCTYPE a [<!ENTITY e \"x\">]><a>&e;</a>",
        "<a>&e;</a>",
        "<ListBucketResult><Contents><Size>1</Size></Contents></ListBucketResult>",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        struct objects_answer a;

        assert_int_equal(objects_answer_parse(texts[i], strlen(texts[i]), &a), -1);
    }
}

static void an_answer_too_deep(void **state)
{
    _cleanup_buf_ struct buf text;
    struct objects_answer a;

    (void)state;
    buf_init(&text, 4096);
    for (int depth = 0; depth < 20; depth++) {
        assert_int_equal(buf_add_str(&text, "<a>"), 0);
    }
    for (int depth = 0; depth < 20; depth++) {
        assert_int_equal(buf_add_str(&text, "</a>"), 0);
    }
    assert_int_equal(objects_answer_parse(buf_str(&text), text.len, &a), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urls),
        cmocka_unit_test(queries),
        cmocka_unit_test(endpoints),
        cmocka_unit_test(credentials_of_a_text),
        cmocka_unit_test(credentials_that_are_none),
        cmocka_unit_test(credentials_of_a_file),
        cmocka_unit_test(credentials_of_the_environment),
        cmocka_unit_test(an_error),
        cmocka_unit_test(a_list_of_objects),
        cmocka_unit_test(uploads_under_way),
        cmocka_unit_test(answers_that_are_none),
        cmocka_unit_test(an_answer_too_deep),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
