/* What /proc tells: whose descendant a process is, and who uses how much memory. */
#include "sbx.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX_PROCESSES 65536
#define MEMORY_PERIOD_MS 100

static pid_t pids[MAX_PROCESSES], parents[MAX_PROCESSES], tree[MAX_PROCESSES];
static unsigned killed_for_memory;

int write_text(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    ssize_t done = write(fd, text, strlen(text));
    close(fd);
    return done < 0 ? -1 : 0;
}

static int read_proc(pid_t pid, const char *name, char *buffer, size_t size) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    ssize_t got = read(fd, buffer, size - 1);
    close(fd);
    if (got <= 0) return -1;
    buffer[got] = 0;
    return 0;
}

/* Fills pids and parents; the number of them. */
static int list_processes(void) {
    DIR *dir = opendir("/proc");
    struct dirent *entry;
    int count = 0;
    if (!dir) return 0;
    while ((entry = readdir(dir)) && count < MAX_PROCESSES) {
        char text[512], *end, state;
        int parent;
        pid_t pid = atoi(entry->d_name);
        if (pid <= 0 || read_proc(pid, "stat", text, sizeof text) < 0) continue;
        end = strrchr(text, ')'); /* a program chooses its own name: only the last parenthesis ends it */
        if (!end || sscanf(end + 1, " %c %d", &state, &parent) != 2) continue;
        pids[count] = pid;
        parents[count++] = parent;
    }
    closedir(dir);
    return count;
}

/* The descendants of `root`, without it, into tree; the number of them. */
static int descendants(pid_t root) {
    int count = list_processes(), found = 1;
    tree[0] = root;
    for (int i = 0; i < found; i++)
        for (int j = 0; j < count && found < MAX_PROCESSES; j++)
            if (parents[j] == tree[i]) tree[found++] = pids[j];
    return found - 1;
}

void kill_descendants(pid_t root, int signal) {
    int count = descendants(root);
    if (signal == SIGKILL) /* stopped first, so that none forks while the others die */
        for (int i = 1; i <= count; i++) kill(tree[i], SIGSTOP);
    for (int i = 1; i <= count; i++) kill(tree[i], signal);
    if (signal == SIGTERM)
        for (int i = 1; i <= count; i++) kill(tree[i], SIGCONT);
    kill(root, SIGCONT); /* a command may have stopped its wrapper, which has to see the ends */
}

int kill_strays(void) {
    int count = list_processes(), strays = 0;
    static pid_t roots[MAX_PROCESSES];
    for (int i = 0; i < count; i++)
        if (parents[i] == 1 && !command_owns(pids[i])) roots[strays++] = pids[i];
    for (int i = 0; i < strays; i++) {
        kill(roots[i], SIGSTOP);
        kill_descendants(roots[i], SIGKILL);
        kill(roots[i], SIGKILL);
    }
    return strays;
}

unsigned memory_kills(void) { return killed_for_memory; }

/* Kills the largest process while the sum is over the limit. Private pages only (resident minus shared); a process that
 * allocates fast overshoots by what it touches in one period. */
static void watch_memory(void) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    for (int round = 0; round < 64; round++) {
        uint64_t sum = 0, top = 0;
        pid_t largest = 0;
        int count = list_processes();
        for (int i = 0; i < count; i++) {
            char text[128];
            unsigned long size, resident, shared;
            if (pids[i] <= 1 || read_proc(pids[i], "statm", text, sizeof text) < 0) continue;
            if (sscanf(text, "%lu %lu %lu", &size, &resident, &shared) != 3) continue;
            uint64_t used = (resident - shared) * page;
            sum += used;
            if (used > top) {
                top = used;
                largest = pids[i];
            }
        }
        if (sum <= ordered.memory || !largest) return;
        if (kill(largest, SIGKILL) == 0) killed_for_memory++;
        struct timespec pause = {0, 5000000};
        nanosleep(&pause, NULL);
    }
}

int64_t memory_tick(int64_t now) {
    static int64_t next;
    if (!ordered.memory || !commands_alive()) return 0;
    if (now >= next) {
        watch_memory();
        next = now_ms() + MEMORY_PERIOD_MS;
    }
    return next;
}
