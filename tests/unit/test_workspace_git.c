#include "workspace/git.h"

#include "base/clock.h"
#include "workspace_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

static char root[64];  /* the configured root */
static char other[64]; /* somebody else's place */

/* Runs a script with $R the root and $O the other place. */
static void sh(const char *script)
{
    static const char prelude[] =
        "export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null HOME=/nonexistent"
        " GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b"
        " GIT_ALLOW_PROTOCOL=file; exec >/dev/null 2>&1\n";
    _cleanup_free_ char *text = NULL;
    assert_true(asprintf(&text, "%sR='%s' O='%s'\n%s", prelude, root, other, script) > 0);
    pid_t pid = fork();
    if (pid == 0) {
        execl("/bin/sh", "sh", "-ec", text, (char *)NULL);
        _exit(127);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (status != 0) {
        fail_msg("script failed: %s", script);
    }
}

static int set_up(void **state)
{
    (void)state;
    fixture_directory_make(root);
    fixture_directory_make(other);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fixture_directory_remove(root);
    fixture_directory_remove(other);
    return 0;
}

static int import(const char *name, const char *revision, int64_t max, struct workspace_sink *sink,
                  struct error *err)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", root, name);
    struct workspace_git git = {
        .path = path,
        .root = root,
        .revision = revision,
        .deadline_mono_ms = clock_mono_ms() + 60000,
        .content_bytes_max = max,
    };
    return workspace_git_feed(&git, sink, err);
}

static void expect_content(const char *name, const char *revision, const char *want)
{
    struct fixture_log log;
    struct error err = ERROR_INIT;
    fixture_log_init(&log);
    if (import(name, revision, 1 << 20, &log.sink, &err) != 0) {
        fail_msg("%s %s: %s", name, revision, err.detail);
    }
    assert_string_equal(buf_str(&log.text), want);
    fixture_log_done(&log);
}

static void expect_refused(const char *name, const char *revision, const char *field,
                           const char *detail)
{
    struct fixture_log log;
    struct error err = ERROR_INIT;
    fixture_log_init(&log);
    assert_int_equal(import(name, revision, 1 << 20, &log.sink, &err), -1);
    assert_int_equal(err.code, ERROR_INVALID_REQUEST);
    assert_string_equal(err.field, field);
    if (strstr(err.detail, detail) == NULL) {
        fail_msg("expected \"%s\" in \"%s\"", detail, err.detail);
    }
    fixture_log_done(&log);
}

static const char PATH_FIELD[] = "/workspace/repositoryPath";
static const char REVISION_FIELD[] = "/workspace/revision";
static const char MAKE[] =
    "git init -q $R/r; cd $R/r; mkdir d; echo hello >d/f; printf x >a.txt; chmod +x a.txt; mkdir a;"
    "echo 2 >a/b; ln -s /etc/passwd l; git add -A; git commit -qm one; git tag v1;"
    "echo more >>d/f; git commit -qam two; git branch side/branch\n";
static const char CONTENT[] =
    "file a.txt 755 1\n+0,1\ndir a 755 0\nfile a/b 644 2\n+0,2\ndir d 755 0\n"
    "file d/f 644 11\n+0,11\nsymlink l 777 0 > /etc/passwd\n";
static const char CONTENT_ONE[] =
    "file a.txt 755 1\n+0,1\ndir a 755 0\nfile a/b 644 2\n+0,2\ndir d 755 0\n"
    "file d/f 644 6\n+0,6\nsymlink l 777 0 > /etc/passwd\n";

static void revisions(void **state)
{
    (void)state;
    sh(MAKE);
    expect_content("r", "HEAD", CONTENT);
    expect_content("r", "side/branch", CONTENT);
    expect_content("r", "v1", CONTENT_ONE);
    expect_content("r", "HEAD~1", CONTENT_ONE);
    expect_refused("r", "nothing", REVISION_FIELD, "no such commit");
    expect_refused("r", "--all", REVISION_FIELD, "no such commit");
    expect_refused("r", "HEAD:d", REVISION_FIELD, "no such commit");
    expect_refused("r", "HEAD..v1", REVISION_FIELD, "no such commit");
}

static void kinds_of_repositories(void **state)
{
    (void)state;
    sh(MAKE);
    sh("cd $R; git clone -q --bare r bare.git; git -C r worktree add -q $R/tree v1;"
       "git clone -q --depth 1 file://$R/r shallow; git -C r gc -q;"
       "git clone -q -s r shared; git clone -q -s shared shared2; chown -R 1234:1234 shared2");
    expect_content("bare.git", "HEAD", CONTENT);
    expect_content("tree", "HEAD", CONTENT_ONE);
    expect_content("shallow", "HEAD", CONTENT);
    expect_content("r", "HEAD", CONTENT);
    expect_content("shared2", "HEAD", CONTENT);
    sh("git init -q --object-format=sha256 $R/s; cd $R/s; echo hi >f; git add f; git commit -qm x");
    expect_content("s", "HEAD", "file f 644 3\n+0,3\n");
    sh("ln -s r $R/alias");
    expect_content("alias", "HEAD", CONTENT);
}

static void paths_outside(void **state)
{
    (void)state;
    sh(MAKE);
    struct error err = ERROR_INIT;
    char path[256];
    sh("mkdir $R/empty; mv $R/r $O/r; ln -s $O/r $R/escape");
    expect_refused("escape", "HEAD", PATH_FIELD, "outside");
    expect_refused("empty", "HEAD", PATH_FIELD, "not a git repository");
    expect_refused("missing", "HEAD", PATH_FIELD, "No such file");
    snprintf(path, sizeof(path), "%s/../%s/r", root, strrchr(other, '/') + 1);
    assert_int_equal(workspace_git_check(path, root, &err), -1);
    assert_non_null(strstr(err.detail, "outside"));
    error_clear(&err);
    assert_int_equal(workspace_git_check("r", root, &err), -1);
    error_clear(&err);
    snprintf(path, sizeof(path), "%s/r", other);
    assert_int_equal(workspace_git_check(path, other, &err), 0);
    /* A root is no prefix of names: /root does not hold /rootX. */
    snprintf(path, sizeof(path), "%sX", root);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(workspace_git_check(path, root, &err), -1);
    assert_non_null(strstr(err.detail, "outside"));
    assert_int_equal(rmdir(path), 0);
}

static void parts_that_lead_outside(void **state)
{
    (void)state;
    sh(MAKE);
    sh("mv $R/r $O/r; mkdir $R/file $R/link $R/link2; echo gitdir: $O/r/.git >$R/file/.git;"
       "ln -s $O/r/.git $R/link/.git");
    expect_refused("file", "HEAD", PATH_FIELD, "outside");
    expect_refused("link", "HEAD", PATH_FIELD, "outside");
    sh("git init -q $R/alt; echo $O/r/.git/objects >$R/alt/.git/objects/info/alternates;"
       "cp -r $O/r/.git/refs $R/alt/.git/");
    expect_refused("alt", "HEAD", PATH_FIELD, "outside");
    sh("git clone -q -s $R/alt $R/alt2 || git init -q $R/alt2;"
       "echo $R/alt/.git/objects >$R/alt2/.git/objects/info/alternates");
    expect_refused("alt2", "HEAD", PATH_FIELD, "outside");
    sh("git init -q $R/common; echo $O/r/.git >$R/common/.git/commondir");
    expect_refused("common", "HEAD", PATH_FIELD, "outside");
    sh("git init -q $R/objects; rm -r $R/objects/.git/objects;"
       "ln -s $O/r/.git/objects $R/objects/.git/objects");
    expect_refused("objects", "HEAD", PATH_FIELD, "outside");
    sh("git -C $O/r gc -q; git init -q $R/pack; rmdir $R/pack/.git/objects/pack;"
       "ln -s $O/r/.git/objects/pack $R/pack/.git/objects/pack");
    expect_refused("pack", "HEAD", PATH_FIELD, "outside");
    sh("git init -q $R/packs; ln -s $O/r/.git/objects/pack/* $R/packs/.git/objects/pack/");
    expect_refused("packs", "HEAD", PATH_FIELD, "outside");
    sh("mkdir $R/fifo; mkfifo $R/fifo/.git");
    expect_refused("fifo", "HEAD", PATH_FIELD, "not a regular file");
}

/* Nothing of a repository runs, and nothing of it changes what its revision holds. */
static void hostile_configuration(void **state)
{
    (void)state;
    sh("git init -q $R/h; cd $R/h; echo '* filter=evil' >.gitattributes;"
       "echo 'gone export-ignore' >>.gitattributes; echo 'subst export-subst' >>.gitattributes;"
       "echo 'crlf text eol=crlf' >>.gitattributes; echo 'id ident' >>.gitattributes;"
       "echo 'wide working-tree-encoding=UTF-16' >>.gitattributes;"
       "echo x >gone; printf %s '$Format:%H$' >subst; echo x >crlf; printf '\\377\\376a\\000' "
       ">wide; printf %s '$Id$' >id; echo x "
       ">f;"
       "git add -A; git commit -qm x;"
       "printf '#!/bin/sh\\ntouch %s/ran\\ncat\\n' $O >$O/evil; chmod +x $O/evil;"
       "git config filter.evil.smudge $O/evil; git config filter.evil.clean $O/evil;"
       "git config filter.evil.process $O/evil; git config filter.evil.required true;"
       "git config core.fsmonitor $O/evil; git config core.sshCommand $O/evil;"
       "git config core.pager $O/evil; git config pager.rev-parse $O/evil;"
       "git config tar.tar.command $O/evil; git config core.hooksPath $O; cp $O/evil "
       "$O/post-checkout;"
       "git config core.attributesFile $O/attributes; git config alias.rev-parse '!'$O/evil;"
       "git config alias.archive '!'$O/evil; git config uploadpack.packObjectsHook $O/evil");
    expect_content(
        "h", "HEAD",
        "file .gitattributes 644 114\n+0,114\nfile crlf 644 2\n+0,2\nfile f 644 2\n+0,2\n"
        "file gone 644 2\n+0,2\nfile id 644 4\n+0,4\nfile subst 644 11\n+0,11\nfile wide 644 "
        "1\n+0,1\n");
    struct stat st;
    char path[128];
    snprintf(path, sizeof(path), "%s/ran", other);
    assert_int_not_equal(stat(path, &st), 0);
}

/* A partial clone whose missing objects could only be had by running the remote's program. */
static void nothing_is_fetched(void **state)
{
    (void)state;
    sh(MAKE);
    sh("git -C $R/r config uploadpack.allowFilter true; cd $R;"
       "git clone -q --no-checkout --filter=blob:none file://$R/r partial;"
       "printf '#!/bin/sh\\ntouch %s/ran\\n' $O >$O/evil; chmod +x $O/evil; cd partial;"
       "git config remote.origin.uploadpack $O/evil");
    expect_refused("partial", "HEAD", PATH_FIELD, "can't read");
    sh("cd $R/partial; git config remote.origin.url \"ext::$O/evil\";"
       "git config protocol.ext.allow always; git config protocol.allow always;"
       "echo 1111111111111111111111111111111111111111 >.git/refs/heads/ghost");
    expect_refused("partial", "ghost", REVISION_FIELD, "no such commit");
    struct stat st;
    char path[128];
    snprintf(path, sizeof(path), "%s/ran", other);
    assert_int_not_equal(stat(path, &st), 0);
}

static void replaced_objects(void **state)
{
    (void)state;
    sh(MAKE);
    sh("cd $R/r; git replace HEAD v1");
    expect_content("r", "HEAD", CONTENT);
}

static void submodules_are_empty(void **state)
{
    (void)state;
    sh(MAKE);
    sh("git init -q $R/m; cd $R/m; git -c protocol.file.allow=always submodule add -q $R/r sub;"
       "git commit -qm x; rm .gitmodules; git commit -qam y");
    expect_content("m", "HEAD", "dir sub 755 0\n");
}

/* Trees that no client would make. */
static void hostile_trees(void **state)
{
    (void)state;
    sh("git init -q $R/t; cd $R/t; b=$(echo x | git hash-object -w --stdin);"
       "l=$(printf /etc | git hash-object -w --stdin);"
       "python3 - $b $l <<'E'\n"
       "import sys,subprocess\n"
       "b,l=[bytes.fromhex(x) for x in sys.argv[1:]]\n"
       "def tree(*e):\n"
       "  d=b''.join(m+b' '+n+b'\\0'+o for m,n,o in e)\n"
       "  return bytes.fromhex(subprocess.run(['git','hash-object','-t','tree','--literally','-w',"
       "'--stdin'],input=d,capture_output=True,check=True).stdout.decode().strip())\n"
       "def commit(n,t):\n"
       "  c=subprocess.run(['git','commit-tree','-m','x',t.hex()],capture_output=True,check=True)\n"
       "  "
       "subprocess.run(['git','update-ref','refs/heads/'+n,c.stdout.decode().strip()],check=True)\n"
       "s=tree((b'100644',b'passwd',b))\n"
       "commit('dotdot',tree((b'40000',b'..',s)))\n"
       "commit('through',tree((b'120000',b'a',l),(b'40000',b'a',s)))\n"
       "commit('slash',tree((b'100644',b'../x',b)))\n"
       "E\n");
    static const char *const branches[] = {"dotdot", "through", "slash"};
    for (size_t i = 0; i < ARRAY_SIZE(branches); i++) {
        struct fixture_log log;
        struct error err = ERROR_INIT;
        fixture_log_init(&log);
        assert_int_equal(import("t", branches[i], 1 << 20, &log.sink, &err), -1);
        assert_int_equal(err.code, ERROR_INVALID_REQUEST);
        fixture_log_done(&log);
    }
}

static void content_bound(void **state)
{
    (void)state;
    sh("git init -q $R/b; cd $R/b; head -c 20000 /dev/urandom >f; echo x >g; git add -A;"
       "git commit -qm x");
    struct fixture_log log;
    struct error err = ERROR_INIT;
    fixture_log_init(&log);
    assert_int_equal(import("b", "HEAD", 6 * WORKSPACE_BLOCK - WORKSPACE_BLOCK, &log.sink, &err),
                     -1);
    assert_int_equal(err.code, ERROR_RESOURCE_LIMIT);
    error_clear(&err);
    assert_int_equal(import("b", "HEAD", 6 * WORKSPACE_BLOCK, &log.sink, &err), 0);
    fixture_log_done(&log);
}

static void interrupted(void **state)
{
    (void)state;
    sh(MAKE);
    struct fixture_log log;
    struct cancel *cancel;
    struct error err = ERROR_INIT;
    char path[128];
    snprintf(path, sizeof(path), "%s/r", root);
    fixture_log_init(&log);
    assert_int_equal(cancel_new(&cancel, &err), 0);
    struct workspace_git git = {.path = path,
                                .root = root,
                                .revision = "HEAD",
                                .deadline_mono_ms = clock_mono_ms() - 1,
                                .content_bytes_max = 1 << 20};
    assert_int_equal(workspace_git_feed(&git, &log.sink, &err), -1);
    assert_int_equal(err.code, ERROR_TIMEOUT);
    error_clear(&err);
    git.deadline_mono_ms = clock_mono_ms() + 60000;
    git.cancel = cancel;
    cancel_fire(cancel);
    assert_int_equal(workspace_git_feed(&git, &log.sink, &err), -1);
    assert_int_equal(err.code, ERROR_RUNTIME);
    cancel_unref(cancel);
    fixture_log_done(&log);
}

#define ROW(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(revisions),
        ROW(kinds_of_repositories),
        ROW(paths_outside),
        ROW(parts_that_lead_outside),
        ROW(hostile_configuration),
        ROW(nothing_is_fetched),
        ROW(replaced_objects),
        ROW(submodules_are_empty),
        ROW(hostile_trees),
        ROW(content_bound),
        ROW(interrupted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
