/* Out by other processes and by sockets. */
#include "escape.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/vm_sockets.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

static void try_memory_of(pid_t pid)
{
    char byte = 0;
    char path[64];
    char what[64];
    struct iovec here = {.iov_base = &byte, .iov_len = 1};
    struct iovec there = {.iov_base = (void *)0x400000, .iov_len = 1};

    (void)snprintf(what, sizeof(what), "read the memory of %d", (int)pid);
    tried(what, process_vm_readv(pid, &here, 1, &there, 1, 0));
    (void)snprintf(what, sizeof(what), "write the memory of %d", (int)pid);
    tried(what, process_vm_writev(pid, &here, 1, &there, 1, 0));
    (void)snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
    tried(path, try_open(path, O_RDWR));
    (void)snprintf(path, sizeof(path), "/proc/%d/syscall", (int)pid);
    tried(path, try_open(path, O_RDONLY));
}

void attempt_trace(const char *argument)
{
    (void)argument;
    tried("attach to 1", ptrace(PTRACE_ATTACH, 1, NULL, NULL));
    tried("seize 1", ptrace(PTRACE_SEIZE, 1, NULL, NULL));
    tried("attach to the parent", ptrace(PTRACE_ATTACH, getppid(), NULL, NULL));
    try_memory_of(1);
    tried("pidfd_getfd of 1", syscall(SYS_pidfd_getfd, syscall(SYS_pidfd_open, 1, 0), 0, 0));
    tried("kcmp with 1", syscall(SYS_kcmp, getpid(), 1, 0, 0, 0));
}

/* How many processes there are to be seen that are not of this program's making. */
static int count_processes(void)
{
    DIR *d = opendir("/proc");
    const struct dirent *e;
    int count = 0;

    while (d != NULL && (e = readdir(d)) != NULL) {
        count += e->d_name[0] >= '1' && e->d_name[0] <= '9';
    }
    if (d != NULL) {
        closedir(d);
    }
    return count;
}

/* Everything that can be thrown at what holds this up. Whether it did anything is seen from
 * outside: the execution goes on. */
void attempt_signals(const char *argument)
{
    static const int SIGNALS[] = {SIGTERM, SIGKILL, SIGSTOP, SIGSEGV, SIGHUP, SIGINT, SIGUSR1};

    (void)argument;
    saw("few processes", "%s", count_processes() < 10 ? "yes" : "no");
    for (size_t i = 0; i < sizeof(SIGNALS) / sizeof(SIGNALS[0]); i++) {
        (void)kill(1, SIGNALS[i]);
        (void)syscall(SYS_pidfd_send_signal, syscall(SYS_pidfd_open, 1, 0), SIGNALS[i], NULL, 0);
    }
    tried("signal what is not here", kill(1 << 22, 0));
    saw("alive", "yes");
}

/* --- network --- */

static void list_interfaces(void)
{
    struct if_nameindex *list = if_nameindex();

    for (struct if_nameindex *i = list; i != NULL && i->if_index != 0; i++) {
        if (strcmp(i->if_name, "lo") != 0) {
            saw("interface", "%s", i->if_name);
        }
    }
    if (list != NULL) {
        if_freenameindex(list);
    }
}

static long try_connect(const char *address, unsigned port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    long result;

    inet_pton(AF_INET, address, &to.sin_addr);
    result = fd < 0 ? -1 : connect(fd, (struct sockaddr *)&to, sizeof(to));
    if (fd >= 0) {
        int errnum = errno;

        close(fd);
        errno = errnum;
    }
    return result;
}

static long try_socket(int family, int type, int protocol)
{
    int fd = socket(family, type | SOCK_CLOEXEC, protocol);

    if (fd >= 0) {
        close(fd);
    }
    return fd;
}

/* `argument` is a port that somebody listens on, on the machine's own loopback. */
void attempt_network(const char *argument)
{
    unsigned port = argument != NULL ? (unsigned)strtoul(argument, NULL, 10) : 8470;

    list_interfaces();
    tried("connect to the machine", try_connect("127.0.0.1", port));
    tried("connect to a neighbour", try_connect("10.0.0.1", 80));
    tried("connect to metadata", try_connect("169.254.169.254", 80));
    tried("connect to the world", try_connect("1.1.1.1", 443));
    tried("raw socket", try_socket(AF_INET, SOCK_RAW, IPPROTO_ICMP));
    tried("packet socket", try_socket(AF_PACKET, SOCK_RAW, 0));
    tried("virtual machine socket", try_socket(AF_VSOCK, SOCK_STREAM, 0));
    tried("kernel crypto", try_socket(AF_ALG, SOCK_SEQPACKET, 0));
}

/* `argument` is the name of an abstract socket that somebody on the machine listens on. */
void attempt_abstract(const char *argument)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t len = argument != NULL ? strlen(argument) : 0;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    memcpy(to.sun_path + 1, argument, len < sizeof(to.sun_path) - 1 ? len : 0);
    tried("connect to the abstract socket",
          fd < 0 ? -1
                 : connect(fd, (struct sockaddr *)&to,
                           (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len)));
}
