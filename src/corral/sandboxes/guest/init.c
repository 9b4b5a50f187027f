/* PID 1 of the sandbox: checks that it is confined as ordered, then serves the control socket until it is ended.
 *
 * PID 1 of a pid namespace cannot be signalled from inside, and being undumpable closes /proc/1 and ptrace.
 */
#include "sbx.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

orders ordered;
int most_files;
static int epoll, signals;

int64_t now_ms(void) { /* does not run while the machine is suspended */
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void control(int operation, int fd, uint32_t events, int kind, int index) {
    struct epoll_event event = {.events = events, .data.u64 = (uint64_t)kind << 32 | (uint32_t)index};
    epoll_ctl(epoll, operation, fd, &event);
}
void watch(int fd, uint32_t events, int kind, int index) { control(EPOLL_CTL_ADD, fd, events, kind, index); }
void rewatch(int fd, uint32_t events, int kind, int index) { control(EPOLL_CTL_MOD, fd, events, kind, index); }
void unwatch(int fd) { control(EPOLL_CTL_DEL, fd, 0, 0, 0); }

static void require(int held, const char *what) {
    if (held) return;
    dprintf(2, "sbx init: refused to serve: %s\n", what);
    _exit(112);
}

/* SBX_HOST_NS: the inodes of the platform's namespaces, "net=N,user=N,..."; ours must differ. */
static void check_namespaces(void) {
    static const char *const names[] = {"net", "user", "pid", "mnt", "ipc", "uts"};
    const char *host = getenv("SBX_HOST_NS");
    require(host != NULL, "SBX_HOST_NS is missing");
    require(getpid() == 1, "not PID 1 of a pid namespace");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[64], key[16], what[64];
        struct stat own;
        snprintf(path, sizeof path, "/proc/self/ns/%s", names[i]);
        snprintf(key, sizeof key, "%s=", names[i]);
        snprintf(what, sizeof what, "no %s namespace of its own", names[i]);
        const char *found = strstr(host, key);
        require(found && stat(path, &own) == 0 && own.st_ino != strtoull(found + strlen(key), NULL, 10), what);
    }
}

static void check_privileges(void) {
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct caps[2];
    require(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1, "no_new_privs is not set");
    require(prctl(PR_GET_SECCOMP) == SECCOMP_MODE_FILTER, "no seccomp filter");
    require(getuid() != 0 && getgid() != 0, "uid or gid 0");
    require(syscall(SYS_capget, &head, caps) == 0, "capabilities cannot be read");
    require(!(caps[0].effective | caps[0].permitted | caps[1].effective | caps[1].permitted), "capabilities are left");
}

static uint64_t from_env(const char *name) {
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : 0;
}

static void read_orders(void) {
    require(getenv("SBX_CONTROL") && getenv("SBX_SPOOL"), "SBX_CONTROL or SBX_SPOOL is missing");
    ordered = (orders){
        .control = (int)from_env("SBX_CONTROL"),
        .spool = (int)from_env("SBX_SPOOL"),
        .output = from_env("SBX_OUTPUT"),
        .memory = from_env("SBX_MEMORY"),
        .unattended_ms = (int64_t)from_env("SBX_UNATTENDED") * 1000,
        .processes = from_env("SBX_PROCESSES"),
        .open_files = from_env("SBX_OPEN_FILES"),
        .file_size = from_env("SBX_FILE_SIZE"),
    };
}

static void close_others(void) { /* what bwrap and boot left open is nobody's business here */
    unsigned low = (unsigned)ordered.control, high = (unsigned)ordered.spool;
    if (low > high) {
        low = (unsigned)ordered.spool;
        high = (unsigned)ordered.control;
    }
    require(low > 2 && low < high, "SBX_CONTROL and SBX_SPOOL must be two descriptors above 2");
    if (low > 3) syscall(SYS_close_range, 3u, low - 1, 0u);
    if (high > low + 1) syscall(SYS_close_range, low + 1, high - 1, 0u);
    syscall(SYS_close_range, high + 1, ~0u, 0u);
    fcntl(ordered.control, F_SETFD, FD_CLOEXEC);
    fcntl(ordered.spool, F_SETFD, FD_CLOEXEC);
}

static void prepare(void) {
    sigset_t taken;
    close_others();
    prctl(PR_SET_DUMPABLE, 0);
    prctl(PR_SET_NAME, "sbx-init");
    umask(022);
    fcntl(ordered.control, F_SETFL, O_NONBLOCK);
    struct rlimit files;
    require(getrlimit(RLIMIT_NOFILE, &files) == 0, "the limit of open files cannot be read");
    require(files.rlim_cur > 2 * SPARE_FILES, "too few open files are allowed");
    most_files = (int)files.rlim_cur;
    for (int i = 1; i < NSIG; i++) signal(i, SIG_IGN);
    signal(SIGCHLD, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    sigemptyset(&taken);
    sigaddset(&taken, SIGCHLD);
    sigaddset(&taken, SIGTERM);
    sigprocmask(SIG_BLOCK, &taken, NULL);
    signals = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    require(signals >= 0 && epoll >= 0, "out of files");
    watch(ordered.control, EPOLLIN, WATCH_CONTROL, 0);
    watch(signals, EPOLLIN, WATCH_SIGNAL, 0);
}

static void reap(void) {
    struct signalfd_siginfo got;
    while (read(signals, &got, sizeof got) == (ssize_t)sizeof got)
        if (got.ssi_signo == SIGTERM && got.ssi_pid == 0) _exit(0); /* from outside the pid namespace */
    while (waitpid(-1, NULL, WNOHANG) > 0);
}

static void dispatch(const struct epoll_event *event) {
    int kind = (int)(event->data.u64 >> 32), index = (int)(uint32_t)event->data.u64;
    if (kind == WATCH_CONTROL) connection_accept();
    else if (kind == WATCH_SIGNAL) reap();
    else if (kind == WATCH_CONNECTION) connection_ready(index, event->events);
    else if (kind == WATCH_STDOUT || kind == WATCH_STDERR) command_output(&commands[index], kind == WATCH_STDERR);
    else if (kind == WATCH_REPORT && commands[index].report >= 0) command_report(&commands[index]);
}

static int64_t sooner(int64_t a, int64_t b) { return !a || (b && b < a) ? b : a; }

/* The dead-man timer. An open connection is a platform that lives; a running command is not. */
static int64_t unattended(int64_t now) {
    static int64_t last;
    if (!ordered.unattended_ms) return 0;
    if (connections_open() || !last) last = now;
    if (now - last >= ordered.unattended_ms) _exit(0); /* the kernel ends the namespace with its PID 1 */
    return last + ordered.unattended_ms;
}

int init(void) {
    struct epoll_event events[64];
    read_orders();
    check_namespaces();
    check_privileges();
    prepare();
    for (;;) {
        int64_t now = now_ms();
        int64_t next = sooner(commands_tick(now), memory_tick(now));
        next = sooner(next, sooner(connections_tick(now), unattended(now)));
        int64_t wait = next ? next - now : -1;
        if (next && wait < 1) wait = 1;
        int count = epoll_wait(epoll, events, 64, wait > 60000 ? 60000 : (int)wait);
        for (int i = 0; i < count; i++) dispatch(&events[i]);
    }
}
