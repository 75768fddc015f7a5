/* The shim's environment is empty and its output goes nowhere, so its sanitizers are told here what
 * to do, and where to write: to a file in the build directory, which script/test wants empty. */
#include <fcntl.h>
#include <unistd.h>

const char *__asan_default_options(void);
const char *__ubsan_default_options(void);

/* Leaks are looked for by tracing, which process 1 could not bear; the shim has no heap anyway. */
const char *__asan_default_options(void)
{
    return "detect_leaks=0:abort_on_error=1:strict_string_checks=1";
}

const char *__ubsan_default_options(void)
{
    return "print_stacktrace=1:halt_on_error=1:abort_on_error=1";
}

__attribute__((constructor)) static void write_to_file(void)
{
    int fd = open(SHIM_SANITIZER_LOG, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd >= 0) {
        (void)dup2(fd, STDERR_FILENO);
        close(fd);
    }
}
