/* The sandbox's own program, in two parts: `sbx boot` starts bwrap, `sbx init` is PID 1 inside and runs the commands.
 *
 * Wire (unix stream socket, one operation a connection): u32le length | u8 type | payload.
 *   to us    Q  request: operation NUL (key=value NUL)...
 *   from us  R  reply: "ok" NUL (key=value NUL)...  or  "err" NUL code NUL text NUL; an opened file comes as SCM_RIGHTS
 *            o e  output: u64le offset, bytes      x  exit: (key=value NUL)...
 * Codes: refused (a wrong request), absent (no such command), lost (a command of an earlier supervisor that did not
 * end under it), full, errno (the text is its number).
 */
#ifndef SBX_H
#define SBX_H
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MAX_COMMANDS 256
#define MAX_CONNECTIONS 256
#define MAX_FRAME (1u << 20)
#define ID_SIZE 65
#define CHUNK 32768
#define SPARE_FILES 32 /* left for connections when commands have taken all others */

enum { WATCH_CONTROL = 1, WATCH_SIGNAL, WATCH_CONNECTION, WATCH_STDOUT, WATCH_STDERR, WATCH_REPORT };

/* What the platform ordered, read from the environment by init. */
typedef struct {
    int control;           /* listening socket */
    int spool;             /* directory of the output and status files */
    uint64_t output;       /* bytes kept of each stream */
    uint64_t memory;       /* watch the sum of resident memory when no cgroup does; 0: do not */
    int64_t unattended_ms; /* end after so long without a connection; 0: never */
    uint64_t processes, open_files, file_size;
} orders;
extern orders ordered;
extern int most_files; /* descriptors we may have */

typedef struct {
    char *text;
    uint32_t size;
} request;

typedef struct {
    int pipe;          /* -1 after its end */
    int spool;
    uint64_t kept;     /* bytes in the spool */
    uint64_t dropped;  /* bytes over the limit, or that the spool had no room for */
    uint64_t end;      /* `kept` when the command ended: what its result holds */
} stream;

typedef struct {
    char id[ID_SIZE];
    int used;
    enum { RUNNING = 1, EXITED } state;
    int gone;          /* the wrapper ended too: no descendant is left */
    int orphaned;      /* the wrapper was killed from inside: its descendants are ours now, and are being ended */
    pid_t wrapper, main;
    int code, signal, timed_out;
    int report;        /* the wrapper tells the command's pid and end here */
    stream stream[2];
    int64_t deadline, kill_at, kill_pause;
    uint64_t serial;
} command;
extern command commands[MAX_COMMANDS];

enum found { ABSENT, FOUND, LOST, FULL }; /* FULL: it has ended, and no slot is free to read it from */
enum started { STARTED, EXISTS, NOT_STARTED };

/* init.c */
int init(void);
int64_t now_ms(void);
void watch(int fd, uint32_t events, int kind, int index);
void rewatch(int fd, uint32_t events, int kind, int index);
void unwatch(int fd);

/* boot.c */
int boot(int argc, char **argv);

/* commands.c */
enum found command_find(const char *id, command **found);
enum started command_start(const request *asked, command **out, const char **code, const char **text);
void command_kill(command *c, int signal, int64_t grace_ms);
void command_output(command *c, int which);
void command_report(command *c);
int64_t commands_tick(int64_t now); /* enforces deadlines; the next moment to do so, 0: none */
int commands_alive(void);
int command_owns(pid_t wrapper);

/* spool.c */
int status_save(const command *c);
int status_load(const char *id, command *c); /* 1: loaded, 0: no such command, -1: it has no end on record */
int spool_create(command *c);
void spool_remove(const command *c);
void spool_write(stream *s, const uint8_t *data, size_t size);

/* processes.c */
void kill_descendants(pid_t root, int signal);
int kill_strays(void); /* ends every child of ours that is no wrapper, and its descendants; how many there were */
int64_t memory_tick(int64_t now);
unsigned memory_kills(void);
int write_text(const char *path, const char *text);

/* connections.c */
void connection_accept(void);
void connection_ready(int index, uint32_t events);
void connections_pump(const command *c);
int connections_open(void);
int64_t connections_tick(int64_t now); /* the next moment to call it, 0: none */
int connection_follows(const command *c);

/* requests.c */
void answer(int connection, request *asked);
char *field(const request *asked, const char *key);
int64_t number(const request *asked, const char *key, int64_t otherwise);
char **fields(const request *asked, const char *key); /* NULL when memory is out; the caller frees the array */

/* connections.c, for requests.c */
void reply(int connection, int fd, const char *text, size_t size);
void follow(int connection, command *c);

#endif
