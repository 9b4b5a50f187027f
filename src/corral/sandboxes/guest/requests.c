/* The operations: start, state, attach, kill, open, ping. */
#include "sbx.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#ifndef SYS_openat2
#define SYS_openat2 437
#endif
#define NO_MAGICLINKS 0x02 /* RESOLVE_NO_MAGICLINKS of openat2(2) */
#define PROC_MAGIC 0x9fa0  /* PROC_SUPER_MAGIC of statfs(2) */

typedef struct {
    uint64_t flags, mode, resolve;
} open_how;

/* The text ends with NUL NUL: a key without a value at the end cannot lead out of it. */
static char *value(char *text, const char *key) {
    size_t size = strlen(key);
    return !strncmp(text, key, size) && text[size] == '=' ? text + size + 1 : NULL;
}

char *field(const request *asked, const char *key) {
    for (char *p = asked->text; p < asked->text + asked->size; p += strlen(p) + 1) {
        char *found = value(p, key);
        if (found) return found;
    }
    return NULL;
}

int64_t number(const request *asked, const char *key, int64_t otherwise) {
    const char *text = field(asked, key);
    return text ? strtoll(text, NULL, 10) : otherwise;
}

char **fields(const request *asked, const char *key) {
    size_t count = 0;
    for (char *p = asked->text; p < asked->text + asked->size; p += strlen(p) + 1) count += value(p, key) != NULL;
    char **found = calloc(count + 1, sizeof *found);
    if (!found) return NULL;
    count = 0;
    for (char *p = asked->text; p < asked->text + asked->size; p += strlen(p) + 1)
        if (value(p, key)) found[count++] = value(p, key);
    return found;
}

/* Lines become NUL-terminated strings. */
static void say(int connection, int fd, const char *format, ...) {
    char text[1024];
    va_list values;
    va_start(values, format);
    int size = vsnprintf(text, sizeof text, format, values);
    va_end(values);
    if (size >= (int)sizeof text) size = sizeof text - 1;
    for (int i = 0; i < size; i++)
        if (text[i] == '\n') text[i] = 0;
    reply(connection, fd, text, (size_t)size);
}

static void refuse(int connection, const char *code, const char *text) {
    say(connection, -1, "err\n%s\n%s\n", code, text);
}

static void start(int connection, request *asked) {
    const char *code, *text;
    command *c;
    enum started done = command_start(asked, &c, &code, &text);
    if (done == NOT_STARTED) refuse(connection, code, text);
    else say(connection, -1, "ok\nstate=%s\n", done == EXISTS ? "exists" : "started");
}

static void state(int connection, request *asked) {
    command *c;
    enum found found = command_find(field(asked, "id"), &c);
    const char *name = "exited";
    if (found == LOST) name = "lost";
    else if (found == ABSENT) name = "unknown";
    else if (found == FOUND && c->state == RUNNING) name = "running";
    say(connection, -1, "ok\nstate=%s\n", name);
}

static command *needed(int connection, request *asked) {
    command *c;
    enum found found = command_find(field(asked, "id"), &c);
    if (found == ABSENT) refuse(connection, "absent", "no such command");
    if (found == LOST) refuse(connection, "lost", "its sandbox ended while it ran: what it did is not known");
    if (found == FULL) refuse(connection, "full", "256 commands run at once: this one can be read when one has ended");
    return found == FOUND ? c : NULL;
}

static void attach(int connection, request *asked) {
    command *c = needed(connection, asked);
    if (!c) return;
    say(connection, -1, "ok\n");
    follow(connection, c);
}

static void end(int connection, request *asked) {
    command *c = needed(connection, asked);
    if (!c) return;
    int64_t grace = number(asked, "grace_ms", 0);
    command_kill(c, grace > 0 ? SIGTERM : SIGKILL, grace);
    say(connection, -1, "ok\n");
}

static void make_parents(char *path) {
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0755); /* what fails here shows when the file is opened */
        *slash = '/';
    }
}

/* Resolved in the sandbox's own mounts, as its uid: a link can lead only to what the sandbox may see anyway. */
static void open_file(int connection, request *asked) {
    char *path = field(asked, "path"), *flags = field(asked, "flags");
    open_how how = {.flags = O_CLOEXEC | O_NONBLOCK | O_NOCTTY, .resolve = NO_MAGICLINKS};
    struct statfs where;
    if (!path || !*path || !flags) {
        refuse(connection, "refused", "path and flags are needed");
        return;
    }
    if (*flags == 'w') {
        how.flags |= O_WRONLY | O_CREAT | O_TRUNC;
        how.mode = (uint64_t)number(asked, "mode", 0644) & 0777;
        if (number(asked, "mkdirs", 0)) make_parents(path);
    } else if (*flags == 'd') how.flags |= O_RDONLY | O_DIRECTORY;
    else how.flags |= O_RDONLY;
    mode_t mask = umask(0);
    int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how), error = errno;
    umask(mask);
    if (fd >= 0 && fstatfs(fd, &where) == 0 && where.f_type == PROC_MAGIC) {
        close(fd); /* /proc/self would be the supervisor */
        fd = -1;
        error = EACCES;
    }
    if (fd < 0) {
        char text[16];
        snprintf(text, sizeof text, "%d", error);
        refuse(connection, "errno", text);
        return;
    }
    say(connection, fd, "ok\n");
    close(fd);
}

void answer(int connection, request *asked) {
    static const struct {
        const char *name;
        void (*run)(int, request *);
    } operations[] = {{"start", start}, {"state", state}, {"attach", attach}, {"kill", end}, {"open", open_file}};
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        if (!strcmp(asked->text, operations[i].name)) {
            operations[i].run(connection, asked);
            return;
        }
    if (!strcmp(asked->text, "ping")) say(connection, -1, "ok\nmemory_kills=%u\n", memory_kills());
    else refuse(connection, "refused", "no such operation");
}
