/* Ends its process (SIGKILL) before or after a chosen deed: a change of a file, a program of its own that has
 * ended, or whoever calls fuse_before.
 *
 * Loaded before all else (LD_PRELOAD), it does nothing until fuse_arm. From then on each deed is written, one a
 * line, to the trace: its name before it is done; `!` and the name when the process ends by it. The names of
 * deeds on files below the root are `WORD FILE`, without the folder, and of a temporary file `.FILE.xyz` as of
 * FILE. Deeds of one name are counted from 1.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

enum { NAME = 160 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char root[PATH_MAX], wanted[NAME];
static int trace = -1, ordinal, after, begun, ended;

static void note(const char *mark, const char *what)
{
    char line[NAME + 4];
    const int length = snprintf(line, sizeof line, "%s%s\n", mark, what);
    if (trace >= 0) syscall(SYS_write, trace, line, (size_t)length);
}

static void blow(const char *what)
{
    note("!", what);
    syscall(SYS_kill, getpid(), SIGKILL);
    for (;;) pause();
}

API void fuse_before(const char *what)
{
    if (trace < 0) return;
    pthread_mutex_lock(&lock);
    note("", what);
    if (*wanted && !strcmp(what, wanted) && ++begun == ordinal && !after) blow(what);
    pthread_mutex_unlock(&lock);
}

API void fuse_after(const char *what)
{
    if (trace < 0) return;
    pthread_mutex_lock(&lock);
    if (*wanted && !strcmp(what, wanted) && ++ended == ordinal && after) blow(what);
    pthread_mutex_unlock(&lock);
}

/* Trace to the file `to`; end the process at deed number `number` of the name, `late`: after it; "": never. */
API void fuse_arm(const char *below, const char *to, const char *name, int number, int late)
{
    snprintf(root, sizeof root, "%s/", below);
    snprintf(wanted, sizeof wanted, "%s", name);
    ordinal = number;
    after = late;
    trace = (int)syscall(SYS_openat, AT_FDCWD, to, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
}

/* The deed's name; 0: it is nobody's business. */
static int named(char out[NAME], const char *word, const char *path)
{
    if (trace < 0 || !path || strncmp(path, root, strlen(root))) return 0;
    const char *file = strrchr(path, '/') + 1;
    const int hidden = *file == '.';
    const char *end = hidden ? strrchr(file + 1, '.') : NULL;
    snprintf(out, NAME, "%s %.*s", word, end ? (int)(end - file - 1) : (int)strlen(file + hidden), file + hidden);
    return 1;
}

static int named_by(char out[NAME], const char *word, int file)
{
    char link[48], path[PATH_MAX];
    if (trace < 0) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    const ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    return named(out, word, path);
}

#define REAL(name) (__extension__(__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* Do it between the two. */
#define AROUND(type, known, deed) \
    char what[NAME]; \
    const int counts = (known); \
    if (counts) fuse_before(what); \
    const type result = (deed); \
    if (counts) fuse_after(what); \
    return result

#define OPENING(name) \
    API int name(const char *path, int flags, ...) \
    { \
        va_list more; \
        va_start(more, flags); \
        const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; \
        va_end(more); \
        AROUND(int, flags & O_CREAT && named(what, "create", path), REAL(name)(path, flags, mode)); \
    }

OPENING(open)
OPENING(open64)

API ssize_t write(int file, const void *data, size_t length)
{
    AROUND(ssize_t, named_by(what, "write", file), REAL(write)(file, data, length));
}

API int fsync(int file) { AROUND(int, named_by(what, "sync", file), REAL(fsync)(file)); }

API int rename(const char *from, const char *to)
{
    AROUND(int, named(what, "rename", to), REAL(rename)(from, to));
}

API int unlink(const char *path) { AROUND(int, named(what, "remove", path), REAL(unlink)(path)); }

API pid_t waitpid(pid_t pid, int *status, int options)
{
    const pid_t ended = REAL(waitpid)(pid, status, options);
    if (ended > 0) {
        fuse_before("program");
        fuse_after("program");
    }
    return ended;
}
