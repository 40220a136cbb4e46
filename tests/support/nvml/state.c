/* The state file: one fact a line, `#` a comment, read again whenever the file was replaced.
 *
 *   driver 570.124.06 | nvml 12.570.124.06 | cuda 12080
 *   count at-init               the number of GPUs is fixed by nvmlInit, as with a real driver; else live
 *   calls PATH                  append "FUNCTION SLOT" to PATH for each call
 *   gpu SLOT WORD VALUE         the words of state.h; a GPU is present when it has a uuid
 *   link SLOT LINK up|down SLOT|switch|BUS-ID
 *   level SLOT SLOT LEVEL       nvmlGpuTopologyLevel_t of a pair
 *   no-peer-access SLOT SLOT
 *   gi-mib SLOT PROFILE MIB     the memory of an instance of a profile
 *   gi SLOT GI PROFILE START    profile: NVML's number of the profile (0..17)
 *   ci SLOT GI CI PROFILE UUID  in the order of the MIG devices
 *   error FUNCTION|* SLOT|* CODE | slow FUNCTION|* SLOT|* MICROSECONDS | hang FUNCTION|* SLOT|*
 *   event SEQUENCE SLOT TYPE DATA GI CI
 *   process SLOT PID BYTES GI CI compute|graphics|mps
 *   use SLOT PID PERCENT AT     a reading of a process' utilisation, in microseconds since 1970
 *   field SLOT ID VALUE | metric SLOT ID VALUE    a metric may be nan or inf
 *
 * MIG changes made through the library go to FILE.mig, in the same words and `-gi SLOT GI`, `-ci SLOT GI CI`: one
 * process at a time, each in one write, and they outlive the process. A line without an end never happened.
 * A process may be ended before or after any call: see tests/support/crash/fuse.c, if that was loaded before.
 * The file is $TONNAGE_FAKE_NVML, or fake-nvml.conf beside this library. Without it no driver is loaded.
 *
 * Nothing here needs a C library newer than 2.31 (so: statx, and no strtol, dladdr or stat).
 */

#define _GNU_SOURCE
#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { POLL_MS = 5, MAX_FILE = 4 << 20, WORDS = 9 };

struct stamp { unsigned long long inode, size; long long seconds; unsigned nanoseconds; unsigned major, minor; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct state *current, *spare;
static struct stamp seen, seen_mig;
static int state_code = DRIVER_NOT_LOADED;
static int sessions;
static int fixed_n = -1, fixed[MAX_GPUS];

/* ---- the library's own place ---- */

static char own_path[PATH_MAX];

static int find_own(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size; (void)data;
    uintptr_t here = (uintptr_t)&find_own;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        uintptr_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        if (info->dlpi_phdr[i].p_type == PT_LOAD && here >= start && here < start + info->dlpi_phdr[i].p_memsz) {
            if (!realpath(info->dlpi_name, own_path)) own_path[0] = 0;
            return 1;
        }
    }
    return 0;
}

/* When it is loaded: later another file may have its name. */
__attribute__((constructor)) static void look_around(void) { dl_iterate_phdr(find_own, NULL); }

static const char *own(void) { return own_path; }

static void state_path(char out[PATH_MAX])
{
    const char *named = getenv("TONNAGE_FAKE_NVML");
    if (named && *named) { snprintf(out, PATH_MAX, "%s", named); return; }
    snprintf(out, PATH_MAX - 16, "%s", own());
    char *slash = strrchr(out, '/');
    strcpy(slash ? slash + 1 : out, "fake-nvml.conf");
}

/* The driver that this file belongs to: the version in libnvidia-ml.so.VERSION; empty without one. */
static const char *own_version(void)
{
    const char *at = strstr(own(), "libnvidia-ml.so.");
    const char *version = at ? at + strlen("libnvidia-ml.so.") : "";
    return strchr(version, '.') ? version : "";
}

/* ---- reading ---- */

static int number(const char *text, long long *out)
{
    int negative = *text == '-', base = 10;
    unsigned long long value = 0;
    if (negative) text++;
    if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) { base = 16; text += 2; }
    if (!*text) return 0;
    for (; *text; text++) {
        int digit = *text >= '0' && *text <= '9' ? *text - '0'
            : base == 16 && *text >= 'a' && *text <= 'f' ? *text - 'a' + 10
            : base == 16 && *text >= 'A' && *text <= 'F' ? *text - 'A' + 10 : 99;
        if (digit >= base || value > (ULLONG_MAX - (unsigned)digit) / (unsigned)base) return 0;
        value = value * (unsigned)base + (unsigned)digit;
    }
    *out = negative ? -(long long)value : (long long)value;
    return 1;
}

static int decimal(const char *text, double *out)
{
    if (!strcmp(text, "nan")) return *out = __builtin_nan(""), 1;
    if (!strcmp(text, "inf")) return *out = __builtin_inf(), 1;
    char whole[32] = "";
    const char *dot = strchr(text, '.');
    size_t length = dot ? (size_t)(dot - text) : strlen(text);
    long long integer;
    if (length >= sizeof whole) return 0;
    memcpy(whole, text, length);
    if (!number(whole, &integer)) return 0;
    double value = 0, scale = 0.1;
    for (const char *at = dot ? dot + 1 : ""; *at; at++, scale /= 10) {
        if (*at < '0' || *at > '9') return 0;
        value += (*at - '0') * scale;
    }
    *out = (double)integer + (*text == '-' ? -value : value);
    return 1;
}

static int within(const char *text, long long limit, long long *out)
{
    return number(text, out) && *out >= 0 && *out < limit;
}

static int slot_of(const char *text, int *out)
{
    long long value;
    if (!strcmp(text, "*")) { *out = -1; return 1; }
    if (!within(text, MAX_GPUS, &value)) return 0;
    *out = (int)value;
    return 1;
}

static int read_gpu(struct state *state, int slot, const char *word, const char *value)
{
    struct gpu *gpu = &state->gpus[slot];
    char name[40];
    snprintf(name, sizeof name, "%s", word);
    for (char *at = name; *at; at++) if (*at == '-') *at = '_';
#define X(field) \
    if (!strcmp(name, #field)) { snprintf(gpu->field, TEXT, "%s", value); gpu->present |= !!gpu->uuid[0]; return 1; }
    TEXTS(X)
#undef X
#define X(field) if (!strcmp(name, #field)) return gpu->has_##field = number(value, &gpu->field);
    NUMBERS(X)
#undef X
    return 0;
}

static int read_link(struct gpu *gpu, char **word)
{
    long long index;
    if (!within(word[2], MAX_LINKS, &index)) return 0;
    struct link *link = &gpu->links[index];
    link->present = 1;
    link->active = !strcmp(word[3], "up");
    if (!link->active && strcmp(word[3], "down")) return 0;
    link->peer = -2;
    if (!strcmp(word[4], "switch")) link->peer = -1;
    else if (strchr(word[4], ':')) snprintf(link->bus_id, sizeof link->bus_id, "%s", word[4]);
    else return slot_of(word[4], &link->peer);
    return 1;
}

static int read_gi(struct gpu *gpu, char **word, int add)
{
    long long id, profile = 0, start = 0;
    if (!within(word[2], 256, &id)) return 0;
    if (add && (!within(word[3], 18, &profile) || !within(word[4], 16, &start))) return 0;
    for (int i = 0; i < MAX_INSTANCES; i++) {
        struct gpu_instance *gi = &gpu->gis[i];
        if (add ? !gi->present : gi->present && gi->id == id) {
            *gi = (struct gpu_instance){add, (int)id, (int)profile, (int)start};
            return 1;
        }
    }
    return !add;
}

static int read_gi_mib(struct gpu *gpu, char **word)
{
    long long profile;
    return within(word[2], PROFILE_NUMBERS, &profile) && number(word[3], &gpu->gi_mib[profile]);
}

static int read_ci(struct gpu *gpu, char **word, int add)
{
    long long gi, id, profile = 0;
    if (!within(word[2], 256, &gi) || !within(word[3], 256, &id)) return 0;
    if (add && !within(word[4], 9, &profile)) return 0;
    for (int i = 0; i < MAX_INSTANCES; i++) {
        struct compute_instance *ci = &gpu->cis[i];
        if (add ? !ci->present : ci->present && ci->gi == gi && ci->id == id) {
            if (add) {
                *ci = (struct compute_instance){1, (int)gi, (int)id, (int)profile, ""};
                snprintf(ci->uuid, TEXT, "%s", word[5]);
            } else {
                memmove(ci, ci + 1, sizeof *ci * (size_t)(MAX_INSTANCES - 1 - i));
                gpu->cis[MAX_INSTANCES - 1].present = 0;
            }
            return 1;
        }
    }
    return !add;
}

static int read_rule(struct state *state, char **word, enum rule_kind kind)
{
    struct rule *rule = &state->rules[state->rules_n];
    if (state->rules_n == MAX_RULES) return 0;
    rule->kind = kind;
    snprintf(rule->function, sizeof rule->function, "%s", word[1]);
    state->rules_n++;
    return slot_of(word[2], &rule->slot) && (kind == RULE_HANG || number(word[3], &rule->value));
}

static int read_event(struct state *state, char **word)
{
    long long n[7];
    for (int i = 1; i < 7; i++) if (!number(word[i], &n[i])) return 0;
    if (state->events_n == MAX_EVENTS) return 0;
    state->events[state->events_n++] = (struct event){n[1], (int)n[2], (unsigned long long)n[3],
        (unsigned long long)n[4], (unsigned)n[5], (unsigned)n[6]};
    return 1;
}

static int read_process(struct state *state, char **word)
{
    static const char *const kinds[] = {"compute", "graphics", "mps"};
    long long n[6];
    for (int i = 1; i < 6; i++) if (!number(word[i], &n[i])) return 0;
    for (int kind = 0; kind < 3; kind++)
        if (!strcmp(word[6], kinds[kind]) && state->processes_n < MAX_PROCESSES) {
            state->processes[state->processes_n++] = (struct process){(int)n[1], (unsigned)n[2],
                (unsigned)n[4], (unsigned)n[5], (unsigned long long)n[3], kind};
            return 1;
        }
    return 0;
}

static int read_use(struct state *state, char **word)
{
    long long n[5];
    for (int i = 1; i < 5; i++) if (!number(word[i], &n[i])) return 0;
    if (state->uses_n == MAX_PROCESSES) return 0;
    state->uses[state->uses_n++] = (struct use){(int)n[1], (unsigned)n[2], (unsigned)n[3], (unsigned long long)n[4]};
    return 1;
}

static int read_number(struct number *numbers, int *n, char **word)
{
    long long id;
    if (*n == MAX_NUMBERS || !slot_of(word[1], &numbers[*n].slot) || !number(word[2], &id)) return 0;
    numbers[*n].id = (int)id;
    return decimal(word[3], &numbers[(*n)++].value);
}

static int read_pair(struct state *state, char **word)
{
    int a, b;
    long long level = 0;
    if (!slot_of(word[1], &a) || !slot_of(word[2], &b) || a < 0 || b < 0) return 0;
    if (!strcmp(word[0], "no-peer-access")) return state->no_peer_access[a][b] = 1;
    if (!number(word[3], &level)) return 0;
    state->levels[a][b] = (int)level;
    return 1;
}

/* `rest` is the line from its fourth word on, for values with blanks. */
static int read_words(struct state *state, char **word, const char *rest)
{
    int slot;
    long long value;
#define IS(text) (!strcmp(word[0], text))
    if (IS("driver")) return snprintf(state->driver, TEXT, "%s", word[1]) > 0;
    if (IS("nvml")) return snprintf(state->nvml, TEXT, "%s", word[1]) > 0;
    if (IS("calls")) return snprintf(state->calls_file, PATH, "%s", word[1]) > 0;
    if (IS("cuda")) { if (!number(word[1], &value)) return 0; state->cuda = (int)value; return 1; }
    if (IS("count")) return state->counted_at_init = !strcmp(word[1], "at-init");
    if (IS("error")) return read_rule(state, word, RULE_ERROR);
    if (IS("slow")) return read_rule(state, word, RULE_SLOW);
    if (IS("hang")) return read_rule(state, word, RULE_HANG);
    if (IS("event")) return read_event(state, word);
    if (IS("process")) return read_process(state, word);
    if (IS("use")) return read_use(state, word);
    if (IS("field")) return read_number(state->fields, &state->fields_n, word);
    if (IS("metric")) return read_number(state->metrics, &state->metrics_n, word);
    if (IS("level") || IS("no-peer-access")) return read_pair(state, word);
    if (!slot_of(word[1], &slot) || slot < 0) return 0;
    struct gpu *gpu = &state->gpus[slot];
    if (IS("gpu")) return read_gpu(state, slot, word[2], rest);
    if (IS("link")) return read_link(gpu, word);
    if (IS("gi-mib")) return read_gi_mib(gpu, word);
    if (IS("gi") || IS("-gi")) return read_gi(gpu, word, IS("gi"));
    if (IS("ci") || IS("-ci")) return read_ci(gpu, word, IS("ci"));
#undef IS
    return 0;
}

static int read_line(struct state *state, char *line)
{
    static char nothing[] = "";
    char *word[WORDS], *rest_of_line, kept[PATH] = "";
    int n = 0;
    if (strlen(line) >= sizeof kept) return 0;
    strcpy(kept, line);
    for (char *at = strtok_r(line, " ", &rest_of_line); at && n < WORDS; at = strtok_r(NULL, " ", &rest_of_line))
        word[n++] = at;
    if (!n || word[0][0] == '#') return 1;
    const char *rest = n > 3 ? kept + (word[3] - line) : nothing;
    while (n < WORDS) word[n++] = nothing;
    return read_words(state, word, rest);
}

static int read_lines(struct state *state, char *text, const char *path)
{
    int row = 0;
    for (char *line = text, *end; line && *line; line = end) {
        row++;
        if ((end = strchr(line, '\n'))) *end++ = 0;
        if (!read_line(state, line)) {
            fprintf(stderr, "fake NVML: %s:%d: not understood: %s\n", path, row, line);
            return 0;
        }
    }
    return 1;
}

/* ---- noticing a change ---- */

static struct stamp stamp_of(const char *path)
{
    struct statx facts;
    if (statx(AT_FDCWD, path, 0, STATX_BASIC_STATS, &facts)) return (struct stamp){0};
    return (struct stamp){facts.stx_ino, facts.stx_size, facts.stx_mtime.tv_sec, facts.stx_mtime.tv_nsec,
        facts.stx_dev_major, facts.stx_dev_minor};
}

static int same(struct stamp a, struct stamp b)
{
    return a.inode == b.inode && a.size == b.size && a.seconds == b.seconds && a.nanoseconds == b.nanoseconds
        && a.major == b.major && a.minor == b.minor;
}

static char *content(const char *path)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    char *text = file < 0 ? NULL : malloc(MAX_FILE + 1);
    size_t length = 0;
    if (text) {
        for (ssize_t got; length < MAX_FILE && (got = read(file, text + length, MAX_FILE - length)) > 0;)
            length += (size_t)got;
        text[length] = 0;
    }
    if (file >= 0) close(file);
    return text;
}

static int load(const char *path, const char *mig_path)
{
    char *text = content(path);
    if (!text) return DRIVER_NOT_LOADED;
    if (!spare && !(spare = malloc(sizeof *spare))) { free(text); return MEMORY; }
    memset(spare, 0, sizeof *spare);
    int good = read_lines(spare, text, path);
    free(text);
    if (good && (text = content(mig_path))) {
        char *whole = strrchr(text, '\n');
        *(whole ? whole + 1 : text) = 0;
        good = read_lines(spare, text, mig_path);
        free(text);
    }
    if (!good) return UNKNOWN;
    struct state *old = current;
    current = spare;
    spare = old;
    return OK;
}

static int refresh(void)
{
    char path[PATH_MAX], mig_path[PATH_MAX + 8];
    state_path(path);
    snprintf(mig_path, sizeof mig_path, "%s.mig", path);
    struct stamp now = stamp_of(path), now_mig = stamp_of(mig_path);
    if (!now.inode) { seen = now; return state_code = DRIVER_NOT_LOADED; }
    if (!same(now, seen) || !same(now_mig, seen_mig)) {
        state_code = load(path, mig_path);
        seen = now;
        seen_mig = now_mig;
    }
    return state_code;
}

/* Whether the library is of another driver than the one that is loaded. */
static int mismatched(void)
{
    const char *version = own_version();
    return *version && strcmp(version, current->driver);
}

/* ---- handles ---- */

enum { OF_DEVICE = 0x5A, OF_MIG = 0x5B, OF_GI = 0x5C, OF_CI = 0x5D };

static handle made(unsigned kind, int slot, int gi, int ci)
{
    return (handle)(uintptr_t)(kind << 24 | (unsigned)slot << 16 | (unsigned)gi << 8 | (unsigned)ci);
}

handle device_handle(int slot) { return made(OF_DEVICE, slot, 0, 0); }
handle mig_handle(int slot, int gi, int ci) { return made(OF_MIG, slot, gi, ci); }
handle gi_handle(int slot, int gi) { return made(OF_GI, slot, gi, 0); }
handle ci_handle(int slot, int gi, int ci) { return made(OF_CI, slot, gi, ci); }

static unsigned kind_of(handle subject) { return (unsigned)((uintptr_t)subject >> 24); }

static int slot_in(handle subject)
{
    unsigned kind = kind_of(subject), slot = (uintptr_t)subject >> 16 & 0xff;
    return kind >= OF_DEVICE && kind <= OF_CI && slot < MAX_GPUS ? (int)slot : -1;
}

static int fits(enum about about, unsigned kind)
{
    switch (about) {
    case GPU: return kind == OF_DEVICE;
    case MIG: return kind == OF_MIG;
    case GPU_OR_MIG: return kind == OF_DEVICE || kind == OF_MIG;
    case GPU_INSTANCE: return kind == OF_GI;
    case COMPUTE_INSTANCE: return kind == OF_CI;
    default: return 1;
    }
}

/* Fill in what the handle stands for. */
static int resolve(struct call *call, enum about about, handle subject)
{
    unsigned kind = kind_of(subject);
    int gi_id = (int)((uintptr_t)subject >> 8 & 0xff), ci_id = (int)((uintptr_t)subject & 0xff);
    if (about == NODE || about == BEFORE_INIT) return OK;
    if ((call->slot = slot_in(subject)) < 0) return INVALID_ARGUMENT;
    if (!fits(about, kind)) return kind == OF_MIG && about == GPU ? NOT_SUPPORTED : INVALID_ARGUMENT;
    call->gpu = &current->gpus[call->slot];
    if (!call->gpu->present || call->gpu->lost) return GPU_IS_LOST;
    if (kind == OF_DEVICE) return OK;
    for (int i = 0; i < MAX_INSTANCES; i++)
        if (call->gpu->gis[i].present && call->gpu->gis[i].id == gi_id) call->gi = &call->gpu->gis[i];
    if (!call->gi) return NOT_FOUND;
    if (kind == OF_GI) return OK;
    for (int i = 0; i < MAX_INSTANCES; i++) {
        struct compute_instance *ci = &call->gpu->cis[i];
        if (ci->present && ci->gi == gi_id && ci->id == ci_id) call->ci = ci;
    }
    return call->ci ? OK : NOT_FOUND;
}

/* ---- calls ---- */

long long monotonic_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

static void nap(long long microseconds)
{
    struct timespec rest = {microseconds / 1000000, microseconds % 1000000 * 1000};
    while (nanosleep(&rest, &rest) && errno == EINTR) {}
}

static void count(const char *function, int slot)
{
    char line[96];
    int file = current && *current->calls_file
        ? open(current->calls_file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (file < 0) return;
    int length = snprintf(line, sizeof line, "%s %d\n", function, slot);
    if (write(file, line, (size_t)length) < 0) perror("fake NVML: calls");
    close(file);
}

/* `any`: rules about every GPU count, too. */
static const struct rule *rule_for(enum rule_kind kind, const char *function, int slot, int any)
{
    for (int i = 0; current && i < current->rules_n; i++) {
        const struct rule *rule = &current->rules[i];
        if (rule->kind == kind && ((any && rule->slot < 0) || (slot >= 0 && rule->slot == slot))
            && (!strcmp(rule->function, "*") || !strcmp(rule->function, function)))
            return rule;
    }
    return NULL;
}

int watch_state(void)
{
    char path[PATH_MAX];
    state_path(path);
    char *slash = strrchr(path, '/');
    if (!slash) return -1;
    *slash = 0;
    const int watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (watch >= 0 && inotify_add_watch(watch, path, IN_MOVED_TO | IN_CLOSE_WRITE | IN_DELETE) < 0) {
        close(watch);
        return -1;
    }
    return watch;
}

static void rest(int watch, long long milliseconds)
{
    char events[4096];
    struct pollfd poll_on = {watch, POLLIN, 0};
    if (watch < 0) {
        nap((milliseconds < POLL_MS ? milliseconds : POLL_MS) * 1000);
    } else if (poll(&poll_on, 1, milliseconds < 1000 ? (int)milliseconds : 1000) > 0) {
        while (read(watch, events, sizeof events) > 0) {}
    }
}

void pause_until_change(struct call *call, int watch, long long milliseconds)
{
    pthread_mutex_unlock(&lock);
    rest(watch, milliseconds);
    pthread_mutex_lock(&lock);
    call->code = refresh();
    call->state = current;
}

/* Wait as long as the file says so. */
static void delay(struct call *call, const char *function, int slot, int any)
{
    const struct rule *slow = rule_for(RULE_SLOW, function, slot, any);
    if (slow) {
        long long microseconds = slow->value;
        pthread_mutex_unlock(&lock);
        nap(microseconds);
        pthread_mutex_lock(&lock);
        refresh();
    }
    while (!state_code && rule_for(RULE_HANG, function, slot, any)) pause_until_change(call, -1, POLL_MS);
    call->code = state_code;
    call->state = current;
}

int rules_about(struct call *call, const char *function, int slot)
{
    delay(call, function, slot, 0);
    const struct rule *error = rule_for(RULE_ERROR, function, slot, 0);
    return call->code ? call->code : error ? (int)error->value : OK;
}

extern void fuse_before(const char *what) __attribute__((weak));
extern void fuse_after(const char *what) __attribute__((weak));

static void changes_path(char out[PATH_MAX + 8])
{
    char path[PATH_MAX];
    state_path(path);
    snprintf(out, PATH_MAX + 8, "%s.mig", path);
}

static struct call begin(const char *function, enum about about, handle subject, int changes)
{
    struct call call = {0};
    int slot = about == NODE || about == BEFORE_INIT ? -1 : slot_in(subject);
    if (fuse_before) fuse_before(function);
    pthread_mutex_lock(&lock);
    call.locked = 1;
    call.slot = -1;
    call.function = function;
    call.changes = changes;
    if (changes) flock(changes, LOCK_EX);
    refresh();
    count(function, slot);
    delay(&call, function, slot, 1);
    const struct rule *error = rule_for(RULE_ERROR, function, slot, 1);
    if (about != BEFORE_INIT && !sessions) call.code = UNINITIALIZED;
    else if (!call.code && mismatched()) call.code = LIB_RM_VERSION_MISMATCH;
    else if (!call.code && error) call.code = (int)error->value;
    else if (!call.code) call.code = resolve(&call, about, subject);
    return call;
}

struct call enter(const char *function, enum about about, handle subject)
{
    return begin(function, about, subject, 0);
}

struct call enter_to_change(const char *function, enum about about, handle subject)
{
    char path[PATH_MAX + 8];
    changes_path(path);
    int file = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    return begin(function, about, subject, file > 0 ? file : 0);
}

void leave(struct call *call)
{
    if (call->changes) close(call->changes);
    if (call->locked) pthread_mutex_unlock(&lock);
    if (fuse_after) fuse_after(call->function);
}

int enumerated(struct state *state, int slots[MAX_GPUS])
{
    int n = 0;
    if (state->counted_at_init && fixed_n >= 0) {
        memcpy(slots, fixed, sizeof fixed);
        return fixed_n;
    }
    for (int slot = 0; slot < MAX_GPUS; slot++)
        if (state->gpus[slot].present) slots[n++] = slot;
    return n;
}

int begin_session(void)
{
    if (!sessions++) {
        fixed_n = -1;
        fixed_n = enumerated(current, fixed);
    }
    return OK;
}

int end_session(void)
{
    sessions--;
    return OK;
}

int give_text(char *out, unsigned size, const char *text)
{
    if (!out) return INVALID_ARGUMENT;
    if (!*text) return NOT_SUPPORTED;
    if (strlen(text) >= size) return INSUFFICIENT_SIZE;
    strcpy(out, text);
    return OK;
}

/* Give up what a process began to write and did not end: it never happened. */
static void drop_half_line(int file)
{
    char *text = malloc(MAX_FILE + 1);
    ssize_t length = text ? pread(file, text, MAX_FILE, 0) : 0;
    if (length > 0 && text[length - 1] != '\n') {
        while (length > 0 && text[length - 1] != '\n') length--;
        if (ftruncate(file, length)) perror("fake NVML: changes");
    }
    free(text);
}

int record_change(const char *line)
{
    char path[PATH_MAX + 8];
    changes_path(path);
    int file = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0) return NO_PERMISSION;
    drop_half_line(file);
    ssize_t written = write(file, line, strlen(line));
    close(file);
    return written == (ssize_t)strlen(line) ? refresh() : UNKNOWN;
}
