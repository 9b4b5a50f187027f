/* Prepares a process and turns it into bwrap: cgroups joined, the sandbox's own uid taken, no tie to the platform left.
 *
 *   sbx boot -x FD -i FD [-b NAME=PATH]... [-u UID] [-c FD]... -- bwrap ARGUMENTS...
 *     -x  the bwrap program, opened by the platform: its path need not be readable for the uid
 *     -i  the pid of the process that becomes bwrap is written here, and inherited by bwrap for its --info-fd
 *     -b  show the directory PATH as /tmp/NAME to bwrap, in a mount namespace of its own: for directories below ones
 *         that the uid may not pass, such as /root
 *     -u  the host uid and gid of the sandbox, for a platform that is root
 *     -c  a cgroup.procs file to join
 */
#include "sbx.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_SHOWN 4

extern char **environ;

static void die(const char *what) {
    dprintf(2, "sbx boot: %s: %s\n", what, strerror(errno));
    _exit(111);
}

static void become(uid_t uid) {
    if (setgroups(0, NULL) < 0) die("setgroups");
    if (setresgid(uid, uid, uid) < 0) die("setresgid");
    if (setresuid(uid, uid, uid) < 0) die("setresuid");
    if (getuid() != uid || geteuid() != uid || setuid(0) == 0) {
        errno = EPERM;
        die("still privileged");
    }
}

/* All directories are opened before /tmp is hidden: they may lie there. */
static void show(char *const *arguments, int count) {
    int fds[MAX_SHOWN];
    if (!count) return;
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) die("mount namespace");
    for (int i = 0; i < count; i++) {
        char *path = strchr(arguments[i], '=');
        fds[i] = path ? open(path + 1, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
        if (fds[i] < 0) die(arguments[i]);
        *path = 0;
    }
    if (mount("corral", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=64k") < 0) die("/tmp");
    for (int i = 0; i < count; i++) {
        char source[32], target[64];
        snprintf(source, sizeof source, "/proc/self/fd/%d", fds[i]);
        snprintf(target, sizeof target, "/tmp/%.32s", arguments[i]);
        if (mkdir(target, 0755) < 0 || mount(source, target, NULL, MS_BIND | MS_REC, NULL) < 0) die(target);
    }
}

static void set_limits(void) {
    struct rlimit none = {0, 0}, files;
    if (setrlimit(RLIMIT_CORE, &none) < 0) die("core limit");
    if (getrlimit(RLIMIT_NOFILE, &files) < 0) die("file limit");
    files.rlim_cur = files.rlim_max < 16384 ? files.rlim_max : 16384; /* the supervisor's; commands get their own */
    if (setrlimit(RLIMIT_NOFILE, &files) < 0) die("file limit");
}

int boot(int argc, char **argv) {
    int option, program = -1, info = -1;
    uid_t uid = 0;
    char *shown[MAX_SHOWN];
    int shown_count = 0;
    while ((option = getopt(argc, argv, "+x:i:b:u:c:")) > 0) {
        if (option == 'x') program = atoi(optarg);
        else if (option == 'i') info = atoi(optarg);
        else if (option == 'b' && shown_count < MAX_SHOWN) shown[shown_count++] = optarg;
        else if (option == 'u') uid = (uid_t)strtoul(optarg, NULL, 10);
        else if (option == 'c') {
            if (write(atoi(optarg), "0", 1) != 1) die("cgroup");
            close(atoi(optarg));
        } else return 2;
    }
    if (program < 0 || info < 0 || optind >= argc) return 2;
    show(shown, shown_count);
    if (uid) become(uid);
    set_limits();
    pid_t child = fork(); /* an orphan: whoever ends the platform does not end it, and the platform need not reap it */
    if (child < 0) die("fork");
    if (child) _exit(0);
    setsid();
    if (dprintf(info, "%d\n", (int)getpid()) < 0) die("info");
    fcntl(program, F_SETFD, FD_CLOEXEC);
    syscall(SYS_execveat, program, "", argv + optind, environ, AT_EMPTY_PATH);
    die("bwrap");
    return 1;
}
