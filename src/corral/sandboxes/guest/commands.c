/* The life of a command: wrapper and child, output, deadlines, end. */
#include "sbx.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#define KILL_PAUSE_MS 50
#define KILL_PAUSE_MAX_MS 1000
#define TIMEOUT_GRACE_MS 500

extern char **environ;

command commands[MAX_COMMANDS];
static uint64_t serials;

/* What the wrapper reports: the child's pid (or -1: it could not be made), then -1 and its wait status. */
typedef struct {
    int pid, status;
} report;

static int valid_id(const char *id) {
    size_t size = id ? strlen(id) : 0;
    if (!size || size >= ID_SIZE) return 0;
    for (; *id; id++)
        if (!isalnum((unsigned char)*id) && *id != '-' && *id != '_') return 0;
    return 1;
}

static void close_fd(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

static void release(command *c) {
    for (int i = 0; i < 2; i++) {
        close_fd(&c->stream[i].pipe);
        close_fd(&c->stream[i].spool);
    }
    close_fd(&c->report);
    memset(c, 0, sizeof *c);
}

/* A free slot; when there is none, that of the oldest command which is over and whose output the spool has. */
static command *free_slot(void) {
    command *oldest = NULL;
    for (int i = 0; i < MAX_COMMANDS; i++) {
        command *c = &commands[i];
        if (!c->used) return c;
        if (!c->gone || c->stream[0].pipe >= 0 || c->stream[1].pipe >= 0 || connection_follows(c)) continue;
        if (!oldest || c->serial < oldest->serial) oldest = c;
    }
    if (oldest) release(oldest);
    return oldest;
}

static command *claim_slot(const char *id) {
    command *c = free_slot();
    if (!c) return NULL;
    *c = (command){.report = -1, .serial = ++serials};
    c->stream[0] = c->stream[1] = (stream){.pipe = -1, .spool = -1};
    strcpy(c->id, id);
    return c;
}

enum found command_find(const char *id, command **found) {
    *found = NULL;
    if (!valid_id(id)) return ABSENT;
    for (int i = 0; i < MAX_COMMANDS; i++)
        if (commands[i].used && !strcmp(commands[i].id, id)) {
            *found = &commands[i];
            return FOUND;
        }
    command past = {0};
    int loaded = status_load(id, &past);
    if (loaded == 0) return ABSENT;
    if (loaded < 0) return LOST;
    command *c = claim_slot(id);
    if (!c) {
        close_fd(&past.stream[0].spool);
        close_fd(&past.stream[1].spool);
        return FULL;
    }
    past.report = -1;
    past.serial = c->serial;
    past.used = past.gone = 1;
    past.state = EXITED;
    strcpy(past.id, id);
    *c = past;
    *found = c;
    return FOUND;
}

int commands_alive(void) {
    int alive = 0;
    for (int i = 0; i < MAX_COMMANDS; i++) alive += commands[i].used && !commands[i].gone;
    return alive;
}

int command_owns(pid_t wrapper) {
    for (int i = 0; i < MAX_COMMANDS; i++)
        if (commands[i].used && !commands[i].gone && commands[i].wrapper == wrapper) return 1;
    return 0;
}

/* ---- the child: from here to exec */
static void limit(int resource, uint64_t value) {
    struct rlimit wanted = {value, value};
    if (value) setrlimit(resource, &wanted);
}

static void run_child(char **argv, char **env, const char *cwd, const int fds[3]) {
    sigset_t none;
    setsid();
    for (int i = 0; i < 3; i++) dup2(fds[i], i);
    syscall(SYS_close_range, 3u, ~0u, 0u);
    for (int i = 1; i < NSIG; i++) signal(i, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_DUMPABLE, 1); /* /proc/self is ours only while dumpable; exec decides anew */
    write_text("/proc/self/oom_score_adj", "500");
    limit(RLIMIT_NOFILE, ordered.open_files);
    limit(RLIMIT_FSIZE, ordered.file_size);
    limit(RLIMIT_NPROC, ordered.processes); /* counted in our own user namespace; the supervisor can always fork */
    if (cwd && chdir(cwd) < 0) {
        dprintf(2, "sbx: working directory %s: %s\n", cwd, strerror(errno));
        _exit(126);
    }
    environ = env;
    execvp(argv[0], argv);
    dprintf(2, "sbx: %s: %s\n", argv[0], strerror(errno));
    _exit(errno == ENOENT ? 127 : 126);
}

/* ---- the wrapper: a subreaper, so that what the command leaves behind stays below it until the last one ends */
static void run_wrapper(char **argv, char **env, const char *cwd, int out, int err, int to) {
    sigset_t all;
    sigfillset(&all);
    sigdelset(&all, SIGCHLD);
    sigprocmask(SIG_SETMASK, &all, NULL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_NAME, "sbx-command");
    int fds[3] = {open("/dev/null", O_RDONLY | O_CLOEXEC), out, err};
    pid_t child = fork();
    if (child == 0) run_child(argv, env, cwd, fds);
    dup2(to, 3); /* never the lowest three: pipes were made while those are open */
    for (int i = 0; i < 3; i++) close(i);
    syscall(SYS_close_range, 4u, ~0u, 0u);
    for (int i = 1; i < NSIG; i++) signal(i, SIG_DFL);
    report told = {child, 0};
    if (write(3, &told, sizeof told) < 0 || child < 0) _exit(0);
    for (;;) {
        int status;
        pid_t ended = waitpid(-1, &status, __WALL);
        if (ended < 0 && errno != EINTR) break;
        told = (report){-1, status};
        if (ended == child && write(3, &told, sizeof told) < 0) break;
    }
    _exit(0);
}

typedef struct {
    int read, write;
} ends;

static int make_pipes(ends pipes[3]) {
    for (int i = 0; i < 3; i++) pipes[i] = (ends){-1, -1};
    for (int i = 0; i < 3; i++) {
        int fds[2];
        if (pipe2(fds, O_CLOEXEC) < 0) return -1;
        pipes[i] = (ends){fds[0], fds[1]};
        if (fds[0] >= most_files - SPARE_FILES || fds[1] >= most_files - SPARE_FILES) {
            errno = EMFILE;
            return -1;
        }
        fcntl(fds[0], F_SETFL, O_NONBLOCK);
    }
    return 0;
}

static void close_pipes(ends pipes[3], int reading) {
    for (int i = 0; i < 3; i++) {
        close_fd(&pipes[i].write);
        if (reading) close_fd(&pipes[i].read);
    }
}

static int spawn(command *c, char **argv, char **env, const char *cwd) {
    ends pipes[3];
    if (make_pipes(pipes) < 0) {
        int error = errno;
        close_pipes(pipes, 1);
        errno = error;
        return -1;
    }
    pid_t wrapper = fork();
    if (wrapper == 0) run_wrapper(argv, env, cwd, pipes[0].write, pipes[1].write, pipes[2].write);
    close_pipes(pipes, wrapper < 0);
    if (wrapper < 0) return -1;
    int index = (int)(c - commands);
    c->wrapper = wrapper;
    c->stream[0].pipe = pipes[0].read;
    c->stream[1].pipe = pipes[1].read;
    c->report = pipes[2].read;
    watch(c->stream[0].pipe, EPOLLIN, WATCH_STDOUT, index);
    watch(c->stream[1].pipe, EPOLLIN, WATCH_STDERR, index);
    watch(c->report, EPOLLIN, WATCH_REPORT, index);
    return 0;
}

enum started command_start(const request *asked, command **out, const char **code, const char **text) {
    static char error[16];
    const char *id = field(asked, "id"), *cwd = field(asked, "cwd");
    int64_t timeout = number(asked, "timeout_ms", 0);
    *code = "refused";
    *text = "id: at most 64 letters, digits, - and _";
    if (!valid_id(id)) return NOT_STARTED;
    if (command_find(id, out) != ABSENT) return EXISTS;
    char **argv = fields(asked, "arg"), **env = fields(asked, "env");
    command *c = NULL;
    *text = "arg: at least one is needed";
    if (!argv || !env || !argv[0]) goto out;
    *code = "full";
    *text = "256 commands run at once, which is the most";
    if (!(c = claim_slot(id))) goto out;
    *code = "errno";
    c->used = 1;
    c->state = RUNNING;
    if (timeout > 0) c->deadline = now_ms() + timeout;
    if (spool_create(c) < 0 || spawn(c, argv, env, cwd) < 0) {
        snprintf(error, sizeof error, "%d", errno);
        *text = error;
        spool_remove(c);
        release(c);
        c = NULL;
    }
out:
    free(argv);
    free(env);
    *out = c;
    return c ? STARTED : NOT_STARTED;
}

/* ---- output and end */
static void end_stream(stream *s) {
    unwatch(s->pipe);
    close_fd(&s->pipe);
}

/* Reads at most `most` bytes of what the pipe holds. */
static void drain(stream *s, size_t most) {
    uint8_t buffer[65536];
    while (most > 0 && s->pipe >= 0) {
        ssize_t got = read(s->pipe, buffer, most < sizeof buffer ? most : sizeof buffer);
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (got <= 0) {
            end_stream(s);
            return;
        }
        spool_write(s, buffer, (size_t)got);
        most -= (size_t)got;
    }
}

void command_output(command *c, int which) {
    if (c->stream[which].pipe < 0) return;
    drain(&c->stream[which], 4 * 65536);
    connections_pump(c);
}

/* The result holds what was written until the end; what the background writes later goes to the spool only. */
static void exited(command *c, int code, int signal) {
    c->state = EXITED;
    c->code = code;
    c->signal = signal;
    c->deadline = 0;
    for (int i = 0; i < 2; i++) {
        stream *s = &c->stream[i];
        int waiting = 0;
        if (s->pipe >= 0 && ioctl(s->pipe, FIONREAD, &waiting) == 0) drain(s, (size_t)waiting);
        s->end = s->kept;
    }
    status_save(c);
}

void command_report(command *c) {
    report told;
    ssize_t got = read(c->report, &told, sizeof told);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got == (ssize_t)sizeof told) {
        if (told.pid > 0) c->main = told.pid;
        else if (!c->main) exited(c, 126, 0);
        else if (WIFSIGNALED(told.status)) exited(c, 0, WTERMSIG(told.status));
        else exited(c, WEXITSTATUS(told.status), 0);
    } else {
        unwatch(c->report);
        close_fd(&c->report);
        c->gone = c->state == EXITED;
        if (!c->gone) { /* never a success: the wrapper was killed from inside */
            c->orphaned = 1;
            c->kill_at = now_ms();
            exited(c, 0, SIGKILL);
        }
    }
    connections_pump(c);
}

void command_kill(command *c, int signal, int64_t grace_ms) {
    if (c->gone) return;
    kill_descendants(c->wrapper, signal);
    c->kill_at = now_ms() + (grace_ms > 0 ? grace_ms : KILL_PAUSE_MS);
    c->kill_pause = KILL_PAUSE_MS;
}

static void kill_round(command *c, int64_t now) {
    if (c->orphaned) c->gone = kill_strays() == 0;
    else kill_descendants(c->wrapper, SIGKILL);
    c->kill_pause = c->kill_pause ? c->kill_pause * 2 : KILL_PAUSE_MS;
    if (c->kill_pause > KILL_PAUSE_MAX_MS) c->kill_pause = KILL_PAUSE_MAX_MS;
    c->kill_at = now + c->kill_pause;
}

int64_t commands_tick(int64_t now) {
    int64_t next = 0;
    for (int i = 0; i < MAX_COMMANDS; i++) {
        command *c = &commands[i];
        if (!c->used || c->gone) continue;
        if (c->deadline && now >= c->deadline) {
            c->timed_out = 1;
            c->deadline = 0;
            command_kill(c, SIGTERM, TIMEOUT_GRACE_MS);
        }
        if (c->kill_at && now >= c->kill_at) kill_round(c, now);
        if (c->deadline && (!next || c->deadline < next)) next = c->deadline;
        if (!c->gone && c->kill_at && (!next || c->kill_at < next)) next = c->kill_at;
    }
    return next;
}
