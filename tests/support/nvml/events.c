/* Event sets: what the file lists with a higher sequence than there was when the GPU was registered. */

#include "state.h"
#include "structs.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_SETS = 32 };

struct set { int used; unsigned long long types[MAX_GPUS]; long long after[MAX_GPUS]; };

static struct set sets[MAX_SETS]; /* read and written with the state's lock held */

static struct set *set_of(void *pointer)
{
    uintptr_t number = (uintptr_t)pointer - 1;
    return number < MAX_SETS && sets[number].used ? &sets[number] : NULL;
}

API int nvmlEventSetCreate(void **out)
{
    ENTER(NODE, NULL);
    for (uintptr_t i = 0; out && i < MAX_SETS; i++)
        if (!sets[i].used) {
            memset(&sets[i], 0, sizeof sets[i]);
            sets[i].used = 1;
            *out = (void *)(i + 1);
            return OK;
        }
    return out ? MEMORY : INVALID_ARGUMENT;
}

API int nvmlEventSetFree(void *pointer)
{
    struct call call __attribute__((cleanup(leave))) = enter(__func__, NODE, NULL);
    if (call.code == UNINITIALIZED) return call.code;
    struct set *set = set_of(pointer);
    if (!set) return INVALID_ARGUMENT;
    set->used = 0;
    return OK;
}

static long long last_of(const struct state *state)
{
    long long last = 0;
    for (int i = 0; i < state->events_n; i++)
        if (state->events[i].sequence > last) last = state->events[i].sequence;
    return last;
}

API int nvmlDeviceRegisterEvents(handle device, unsigned long long types, void *pointer)
{
    ENTER(GPU, device);
    struct set *set = set_of(pointer);
    if (!set) return INVALID_ARGUMENT;
    if (!call.gpu->has_event_types || types & ~(unsigned long long)call.gpu->event_types) return NOT_SUPPORTED;
    if (!set->types[call.slot]) set->after[call.slot] = last_of(call.state);
    set->types[call.slot] |= types;
    return OK;
}

static int next(struct set *set, const struct state *state, struct event_data *out)
{
    const struct event *first = NULL;
    for (int i = 0; i < state->events_n; i++) {
        const struct event *event = &state->events[i];
        if (event->slot >= 0 && event->slot < MAX_GPUS && set->types[event->slot] & event->type
            && event->sequence > set->after[event->slot] && (!first || event->sequence < first->sequence))
            first = event;
    }
    if (!first) return 0;
    set->after[first->slot] = first->sequence;
    *out = (struct event_data){device_handle(first->slot), first->type, first->data, first->gi, first->ci};
    return 1;
}

/* A registered GPU that is gone ends the waiting, as the interface says. */
static int lost(const struct set *set, const struct state *state)
{
    for (int slot = 0; slot < MAX_GPUS; slot++)
        if (set->types[slot] && (!state->gpus[slot].present || state->gpus[slot].lost)) return 1;
    return 0;
}

static int wait_for(struct call *call, int watch, void *pointer, struct event_data *out, unsigned timeout_ms)
{
    const long long until = monotonic_ms() + timeout_ms;
    for (;;) {
        struct set *set = set_of(pointer);
        if (!set || !out) return INVALID_ARGUMENT;
        if (next(set, call->state, out)) return OK;
        if (lost(set, call->state)) return GPU_IS_LOST;
        const long long left = until - monotonic_ms();
        if (left <= 0) return TIMED_OUT;
        pause_until_change(call, watch, left);
        if (call->code) return call->code;
    }
}

API int nvmlEventSetWait_v2(void *pointer, struct event_data *out, unsigned timeout_ms)
{
    const int watch = timeout_ms ? watch_state() : -1; /* before the first look: no change goes unseen */
    struct call call __attribute__((cleanup(leave))) = enter(__func__, NODE, NULL);
    const int code = call.code ? call.code : wait_for(&call, watch, pointer, out, timeout_ms);
    if (watch >= 0) close(watch);
    return code;
}
