/* The control socket's connections: frames in, replies and output out. A slow reader never holds up a command. */
#include "sbx.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define ACCEPT_PAUSE_MS 100

typedef struct {
    int fd;
    command *follows;
    uint64_t position[2];
    int told_exit;
    uint8_t *in;
    uint32_t in_size, in_room;
    uint8_t out[CHUNK + 4096];
    uint32_t out_size, out_done;
} connection;
static connection *connections[MAX_CONNECTIONS];
static int open_count, accepting = 1;
static int64_t accept_at; /* when to try again after descriptors ran out; 0: when a connection ends */

int connections_open(void) { return open_count; }

int connection_follows(const command *c) {
    for (int i = 0; i < MAX_CONNECTIONS; i++)
        if (connections[i] && connections[i]->follows == c) return 1;
    return 0;
}

static void accept_again(void) {
    if (!accepting) rewatch(ordered.control, EPOLLIN, WATCH_CONTROL, 0);
    accepting = 1;
}

static void drop(int index) {
    connection *n = connections[index];
    if (!n) return;
    close(n->fd);
    free(n->in);
    free(n);
    connections[index] = NULL;
    open_count--;
    accept_again();
}

/* Those who come meanwhile wait in the backlog. */
static void accept_later(int64_t when) {
    rewatch(ordered.control, 0, WATCH_CONTROL, 0);
    accepting = 0;
    accept_at = when;
}

int64_t connections_tick(int64_t now) {
    if (!accepting && accept_at && now >= accept_at) accept_again();
    return accepting ? 0 : accept_at;
}

void connection_accept(void) {
    int index = 0;
    while (index < MAX_CONNECTIONS && connections[index]) index++;
    if (index == MAX_CONNECTIONS) {
        accept_later(0);
        return;
    }
    int fd = accept4(ordered.control, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE) accept_later(now_ms() + ACCEPT_PAUSE_MS);
        return;
    }
    struct ucred peer; /* pid 0: the peer is outside our pid namespace; nobody inside may ask us anything */
    socklen_t size = sizeof peer;
    connection *n = NULL;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.pid != 0 || !(n = calloc(1, sizeof *n))) {
        close(fd);
        return;
    }
    n->fd = fd;
    connections[index] = n;
    open_count++;
    watch(fd, EPOLLIN, WATCH_CONNECTION, index);
}

static int put_frame(connection *n, char type, const void *head, uint32_t head_size, const void *body,
                     uint32_t body_size) {
    uint32_t size = 1 + head_size + body_size;
    if (n->out_size + 4 + size > sizeof n->out) return -1;
    uint8_t *to = n->out + n->out_size;
    memcpy(to, &size, 4);
    to[4] = (uint8_t)type;
    if (head_size) memcpy(to + 5, head, head_size);
    if (body_size) memcpy(to + 5 + head_size, body, body_size);
    n->out_size += 4 + size;
    return 0;
}

/* 0: all is sent, 1: the rest goes when there is room, -1: the connection is over. */
static int flush_out(int index) {
    connection *n = connections[index];
    while (n->out_done < n->out_size) {
        ssize_t sent = send(n->fd, n->out + n->out_done, n->out_size - n->out_done, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0 && errno == EAGAIN) {
            rewatch(n->fd, EPOLLIN | EPOLLOUT, WATCH_CONNECTION, index);
            return 1;
        }
        if (sent < 0) {
            drop(index);
            return -1;
        }
        n->out_done += (uint32_t)sent;
    }
    n->out_size = n->out_done = 0;
    return 0;
}

void reply(int index, int fd, const char *text, size_t size) {
    connection *n = connections[index];
    if (n->out_size || put_frame(n, 'R', text, (uint32_t)size, NULL, 0) < 0) { /* requests on top of each other */
        drop(index);
        return;
    }
    if (fd < 0) {
        flush_out(index);
        return;
    }
    struct iovec data = {n->out, n->out_size};
    char control[CMSG_SPACE(sizeof(int))] = {0};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control};
    message.msg_controllen = sizeof control;
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    ssize_t sent = sendmsg(n->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent != (ssize_t)n->out_size) drop(index);
    else n->out_size = 0;
}

static uint64_t limit_of(const command *c, int which) {
    return c->state == EXITED ? c->stream[which].end : c->stream[which].kept;
}

static void tell_exit(int index) {
    connection *n = connections[index];
    const command *c = n->follows;
    char text[256];
    int size = snprintf(text, sizeof text, "code=%d\nsignal=%d\ntimed_out=%d\nout_dropped=%llu\nerr_dropped=%llu\n",
                        c->code, c->signal, c->timed_out, (unsigned long long)c->stream[0].dropped,
                        (unsigned long long)c->stream[1].dropped);
    for (int i = 0; i < size; i++)
        if (text[i] == '\n') text[i] = 0;
    n->told_exit = 1;
    put_frame(n, 'x', text, (uint32_t)size, NULL, 0);
    flush_out(index);
}

/* Sends what the spool has past this reader's position, as much as the socket takes. */
static void pump(int index) {
    connection *n = connections[index];
    while (n && n->follows && !n->told_exit && !n->out_size) {
        command *c = n->follows;
        uint8_t chunk[CHUNK];
        int which = n->position[0] < limit_of(c, 0) ? 0 : 1;
        uint64_t *position = &n->position[which], left = limit_of(c, which) - *position;
        if (*position >= limit_of(c, which)) {
            if (c->state == EXITED) tell_exit(index);
            return;
        }
        ssize_t got = pread(c->stream[which].spool, chunk, left < CHUNK ? left : CHUNK, (off_t)*position);
        if (got <= 0) { /* the spool lost what it had: no result is better than a wrong one */
            drop(index);
            return;
        }
        put_frame(n, which ? 'e' : 'o', position, sizeof *position, chunk, (uint32_t)got);
        *position += (uint64_t)got;
        if (flush_out(index) != 0) return;
        n = connections[index];
    }
}

void connections_pump(const command *c) {
    for (int i = 0; i < MAX_CONNECTIONS; i++)
        if (connections[i] && connections[i]->follows == c) pump(i);
}

void follow(int index, command *c) {
    if (!connections[index]) return;
    connections[index]->follows = c;
    pump(index);
}

/* 0: a frame was answered, 1: it is not complete yet, -1: the connection is over. */
static int next_frame(int index) {
    connection *n = connections[index];
    uint32_t size;
    if (n->in_size < 5) return 1;
    memcpy(&size, n->in, 4);
    if (size < 1 || size > MAX_FRAME || n->in[4] != 'Q' || n->follows) {
        drop(index);
        return -1;
    }
    if (n->in_size < 4 + size) return 1;
    request asked = {.text = malloc(size + 1), .size = size};
    if (!asked.text) {
        drop(index);
        return -1;
    }
    memcpy(asked.text, n->in + 5, size - 1);
    asked.text[size - 1] = asked.text[size] = 0;
    n->in_size -= 4 + size;
    memmove(n->in, n->in + 4 + size, n->in_size);
    answer(index, &asked);
    free(asked.text);
    return connections[index] ? 0 : -1;
}

static int make_room(connection *n) {
    if (n->in_room - n->in_size >= 16384) return 0;
    uint32_t room = n->in_room ? n->in_room * 2 : 32768;
    uint8_t *grown = room > 4 * MAX_FRAME ? NULL : realloc(n->in, room);
    if (!grown) return -1;
    n->in = grown;
    n->in_room = room;
    return 0;
}

static void receive(int index) {
    for (;;) {
        connection *n = connections[index];
        int more = 0;
        ssize_t got = make_room(n) < 0 ? 0 : recv(n->fd, n->in + n->in_size, n->in_room - n->in_size, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && errno == EAGAIN) return;
        if (got <= 0) {
            drop(index);
            return;
        }
        n->in_size += (uint32_t)got;
        while (more == 0) more = next_frame(index);
        if (more < 0) return;
    }
}

void connection_ready(int index, uint32_t events) {
    if (!connections[index]) return;
    if (events & EPOLLOUT) {
        if (flush_out(index) == 0) {
            rewatch(connections[index]->fd, EPOLLIN, WATCH_CONNECTION, index);
            pump(index);
        }
    }
    if (connections[index] && (events & (EPOLLIN | EPOLLHUP | EPOLLERR))) receive(index);
}
