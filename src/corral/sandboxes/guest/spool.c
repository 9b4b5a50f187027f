/* The files that outlive supervisor and platform: <id>.out, <id>.err and <id>.status of each command. */
#include "sbx.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define STATUS_SIZE 256
#define STATUS_PATTERN                                                                                                 \
    "state=%7s code=%d signal=%d timed_out=%d out=%" SCNu64 " err=%" SCNu64 " out_dropped=%" SCNu64                    \
    " err_dropped=%" SCNu64

static void name_of(char *name, size_t size, const char *id, const char *suffix) {
    snprintf(name, size, "%s.%s", id, suffix);
}

static int put(const char *name, int flags, const char *text) {
    int fd = openat(ordered.spool, name, O_WRONLY | O_CLOEXEC | flags, 0600);
    if (fd < 0) return -1;
    ssize_t done = write(fd, text, STATUS_SIZE);
    close(fd);
    return done == STATUS_SIZE ? 0 : -1;
}

/* 0, or -1 with errno. A full disk is met by overwriting the record of fixed size, which needs no new block. */
int status_save(const command *c) {
    char temporary[ID_SIZE + 8], name[ID_SIZE + 8], text[STATUS_SIZE + 1];
    const stream *o = &c->stream[0], *e = &c->stream[1];
    int ended = c->state == EXITED;
    int size = snprintf(text, sizeof text,
                        "state=%s code=%d signal=%d timed_out=%d out=%" PRIu64 " err=%" PRIu64 " out_dropped=%" PRIu64
                        " err_dropped=%" PRIu64,
                        ended ? "exited" : "running", c->code, c->signal, c->timed_out, ended ? o->end : o->kept,
                        ended ? e->end : e->kept, o->dropped, e->dropped);
    memset(text + size, ' ', STATUS_SIZE - size);
    text[STATUS_SIZE - 1] = '\n';
    name_of(temporary, sizeof temporary, c->id, "new");
    name_of(name, sizeof name, c->id, "status");
    if (put(temporary, O_CREAT | O_TRUNC, text) == 0 && renameat(ordered.spool, temporary, ordered.spool, name) == 0)
        return 0;
    int error = errno;
    unlinkat(ordered.spool, temporary, 0);
    if (put(name, 0, text) == 0) return 0;
    errno = error ? error : ENOSPC;
    return -1;
}

static int spool_open(const char *id, const char *suffix, int flags) {
    char name[ID_SIZE + 8];
    name_of(name, sizeof name, id, suffix);
    return openat(ordered.spool, name, O_CLOEXEC | flags, 0600);
}

int spool_create(command *c) {
    c->stream[0].spool = spool_open(c->id, "out", O_RDWR | O_CREAT | O_EXCL);
    if (c->stream[0].spool < 0) return -1;
    c->stream[1].spool = spool_open(c->id, "err", O_RDWR | O_CREAT | O_EXCL);
    return c->stream[1].spool < 0 ? -1 : status_save(c);
}

void spool_remove(const command *c) {
    static const char *const suffixes[] = {"status", "err", "out"};
    for (int i = 0; i < 3; i++) {
        char name[ID_SIZE + 8];
        name_of(name, sizeof name, c->id, suffixes[i]);
        unlinkat(ordered.spool, name, 0);
    }
}

int status_load(const char *id, command *c) {
    char text[STATUS_SIZE + 1] = "", state[8] = "";
    uint64_t kept[2], dropped[2];
    int fd = spool_open(id, "status", O_RDONLY);
    if (fd < 0) {
        fd = spool_open(id, "out", O_RDONLY);
        if (fd < 0) return 0;
        close(fd);
        return -1;
    }
    ssize_t got = read(fd, text, STATUS_SIZE);
    close(fd);
    if (got <= 0 || sscanf(text, STATUS_PATTERN, state, &c->code, &c->signal, &c->timed_out, &kept[0], &kept[1],
                           &dropped[0], &dropped[1]) != 8)
        return -1;
    if (strcmp(state, "exited")) return -1;
    for (int i = 0; i < 2; i++) {
        stream *s = &c->stream[i];
        *s = (stream){.pipe = -1, .spool = spool_open(id, i ? "err" : "out", O_RDONLY), .kept = kept[i],
                      .dropped = dropped[i], .end = kept[i]};
    }
    return 1;
}

void spool_write(stream *s, const uint8_t *data, size_t size) {
    uint64_t room = ordered.output > s->kept ? ordered.output - s->kept : 0;
    size_t wanted = size < room ? size : (size_t)room, done = 0;
    while (done < wanted) {
        ssize_t written = pwrite(s->spool, data + done, wanted - done, (off_t)s->kept);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) break;
        done += (size_t)written;
        s->kept += (uint64_t)written;
    }
    s->dropped += size - done;
}
