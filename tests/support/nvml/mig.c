/* MIG: instances, the devices they make, and what a whole GPU and a MIG device answer alike. */

#include "mig.h"
#include "state.h"
#include "structs.h"

#include <stdio.h>
#include <string.h>

#define MIB (1ULL << 20)

static const struct profile *profile_of(const struct gpu *gpu, int number)
{
    if (!gpu->has_mig_mode || gpu->mig_family < 1 || gpu->mig_family > FAMILIES || number < 0) return NULL;
    const struct family *family = &families[gpu->mig_family - 1];
    for (int i = 0; i < family->profiles_n; i++)
        if (family->profiles[i].number == number) return &family->profiles[i];
    return NULL;
}

static const struct profile *profile_by_id(const struct gpu *gpu, unsigned id)
{
    for (int number = 0; number < PROFILE_NUMBERS; number++) {
        const struct profile *profile = profile_of(gpu, number);
        if (profile && profile->id == id) return profile;
    }
    return NULL;
}

static int units_of(const struct gpu *gpu) { return families[gpu->mig_family - 1].units; }

/* The catalogue's figure, which the file has. */
static unsigned long long memory_mib_of(const struct gpu *gpu, const struct profile *profile)
{
    return (unsigned long long)gpu->gi_mib[profile->number];
}

/* The GB in a profile's name: eighths of the memory, times all of it in GiB rounded up. */
static unsigned gb_of(const struct gpu *gpu, const struct profile *profile)
{
    unsigned long long eighths = (8ULL * (unsigned)profile->size) / (unsigned)units_of(gpu);
    return (unsigned)((2 * eighths * (((unsigned long long)gpu->memory_mib + 1023) / 1024) + 8) / 16);
}

static void profile_name(const struct gpu *gpu, const struct profile *profile, int slices, char *out, size_t size)
{
    char split[8] = "";
    if (slices != profile->slices) snprintf(split, sizeof split, "%dc.", slices);
    snprintf(out, size, "%s%dg.%ugb%s", split, profile->slices, gb_of(gpu, profile), profile->suffix);
}

static int enabled(const struct gpu *gpu) { return gpu->has_mig_mode && gpu->mig_mode > 0; }

/* Compute instance profiles: 1, 2, 3, 4, 7, 8, 6 slices, 1 slice with media. */
static const int ci_slices[] = {1, 2, 3, 4, 7, 8, 6, 1};

static int slices_of(const struct compute_instance *ci)
{
    return ci->profile >= 0 && ci->profile < 8 ? ci_slices[ci->profile] : 1;
}

/* ---- alike for both ---- */

API int nvmlDeviceGetName(handle device, char *out, unsigned size)
{
    ENTER(GPU_OR_MIG, device);
    const struct profile *profile = call.ci ? profile_of(call.gpu, call.gi->profile) : NULL;
    char name[TEXT + 32], of_profile[32];
    if (!call.ci) return give_text(out, size, call.gpu->name);
    if (!profile) return UNKNOWN;
    profile_name(call.gpu, profile, slices_of(call.ci), of_profile, sizeof of_profile);
    snprintf(name, sizeof name, "%s MIG %s", call.gpu->name, of_profile);
    return give_text(out, size, name);
}

static int memory(struct call *call, struct memory_v2 *out)
{
    const struct gpu *gpu = call->gpu;
    const struct profile *profile = call->gi ? profile_of(gpu, call->gi->profile) : NULL;
    if (call->gi && !profile) return UNKNOWN;
    if (!gpu->has_memory_mib) return NOT_SUPPORTED;
    out->total = profile ? memory_mib_of(gpu, profile) * MIB : (unsigned long long)gpu->memory_mib * MIB;
    out->reserved = profile ? 0 : (unsigned long long)gpu->memory_reserved_mib * MIB;
    out->used = profile ? 0 : (unsigned long long)gpu->memory_used_mib * MIB;
    for (int i = 0; profile && i < call->state->processes_n; i++) {
        const struct process *process = &call->state->processes[i];
        if (process->slot == call->slot && process->gi == (unsigned)call->gi->id) out->used += process->bytes;
    }
    out->free = out->total - out->reserved - out->used;
    return OK;
}

API int nvmlDeviceGetMemoryInfo(handle device, struct memory *out)
{
    ENTER(GPU_OR_MIG, device);
    struct memory_v2 facts = {0};
    if (!out) return INVALID_ARGUMENT;
    int code = memory(&call, &facts);
    *out = (struct memory){facts.total, facts.free, facts.used + facts.reserved};
    return code;
}

API int nvmlDeviceGetMemoryInfo_v2(handle device, struct memory_v2 *out)
{
    ENTER(GPU_OR_MIG, device);
    if (!out) return INVALID_ARGUMENT;
    if (out->version != VERSION(struct memory_v2, 2)) return ARGUMENT_VERSION_MISMATCH;
    return memory(&call, out);
}

/* ---- mode ---- */

API int nvmlDeviceGetMigMode(handle device, unsigned *now, unsigned *pending)
{
    ENTER(GPU, device);
    if (!now || !pending) return INVALID_ARGUMENT;
    *pending = (unsigned)(call.gpu->has_mig_pending ? call.gpu->mig_pending : call.gpu->mig_mode);
    GIVE(mig_mode, now);
}

static int instances(const struct gpu *gpu)
{
    int n = 0;
    for (int i = 0; i < MAX_INSTANCES; i++) n += gpu->gis[i].present + gpu->cis[i].present;
    return n;
}

static int busy(const struct call *call, unsigned gi)
{
    for (int i = 0; i < call->state->processes_n; i++) {
        const struct process *process = &call->state->processes[i];
        if (process->slot == call->slot && (gi == ~0U || process->gi == gi)) return 1;
    }
    return 0;
}

/* The mode changes at once unless the GPU needs a reset for it or somebody uses the GPU. */
API int nvmlDeviceSetMigMode(handle device, unsigned mode, int *activation)
{
    CHANGE(GPU, device);
    char line[128];
    if (!activation || mode > 1) return INVALID_ARGUMENT;
    if (!call.gpu->has_mig_mode) return NOT_SUPPORTED;
    if (instances(call.gpu)) return IN_USE;
    const int in_use = busy(&call, ~0U);
    const int waits = (unsigned)call.gpu->mig_mode != mode && (in_use || call.gpu->mig_needs_reset);
    *activation = !waits ? OK : in_use ? IN_USE : RESET_REQUIRED;
    snprintf(line, sizeof line, "gpu %d mig-mode %lld\ngpu %d mig-pending %u\n", call.slot,
        waits ? call.gpu->mig_mode : (long long)mode, call.slot, mode);
    return record_change(line);
}

/* ---- MIG devices ---- */

API int nvmlDeviceIsMigDeviceHandle(handle device, unsigned *out)
{
    ENTER(GPU_OR_MIG, device);
    if (!out) return INVALID_ARGUMENT;
    *out = call.ci != NULL;
    return OK;
}

API int nvmlDeviceGetMaxMigDeviceCount(handle device, unsigned *out)
{
    ENTER(GPU, device);
    if (!out) return INVALID_ARGUMENT;
    const long long family = call.gpu->has_mig_mode ? call.gpu->mig_family : 0;
    *out = family >= 1 && family <= FAMILIES ? (unsigned)families[family - 1].devices : 0;
    return OK;
}

API int nvmlDeviceGetMigDeviceHandleByIndex(handle device, unsigned index, handle *out)
{
    ENTER(GPU, device);
    if (!call.gpu->has_mig_mode) return NOT_SUPPORTED;
    if (!out || index >= MAX_INSTANCES) return INVALID_ARGUMENT;
    const struct compute_instance *ci = &call.gpu->cis[index];
    if (!enabled(call.gpu) || !ci->present) return NOT_FOUND;
    *out = mig_handle(call.slot, ci->gi, ci->id);
    return OK;
}

API int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle device, handle *out)
{
    ENTER(MIG, device);
    if (!out) return INVALID_ARGUMENT;
    *out = device_handle(call.slot);
    return OK;
}

API int nvmlDeviceGetGpuInstanceId(handle device, unsigned *out)
{
    ENTER(GPU_OR_MIG, device);
    if (!out) return INVALID_ARGUMENT;
    if (!call.ci) return NOT_SUPPORTED;
    *out = (unsigned)call.ci->gi;
    return OK;
}

API int nvmlDeviceGetComputeInstanceId(handle device, unsigned *out)
{
    ENTER(GPU_OR_MIG, device);
    if (!out) return INVALID_ARGUMENT;
    if (!call.ci) return NOT_SUPPORTED;
    *out = (unsigned)call.ci->id;
    return OK;
}

static unsigned multiprocessors(const struct gpu *gpu, int slices)
{
    int all = families[gpu->mig_family - 1].slices;
    return (unsigned)(gpu->has_slice_multiprocessors ? gpu->slice_multiprocessors * slices
        : gpu->multiprocessors / all * slices);
}

API int nvmlDeviceGetAttributes_v2(handle device, struct attributes *out)
{
    ENTER(GPU_OR_MIG, device);
    if (!out) return INVALID_ARGUMENT;
    memset(out, 0, sizeof *out);
    if (!call.ci) {
        out->multiprocessors = (unsigned)call.gpu->multiprocessors;
        out->memory_mib = (unsigned long long)call.gpu->memory_mib;
        return call.gpu->has_multiprocessors ? OK : NOT_SUPPORTED;
    }
    const struct profile *profile = profile_of(call.gpu, call.gi->profile);
    if (!profile) return UNKNOWN;
    *out = (struct attributes){multiprocessors(call.gpu, slices_of(call.ci)), (unsigned)profile->slices,
        (unsigned)profile->decoders, (unsigned)profile->encoders, (unsigned)profile->jpegs,
        (unsigned)profile->ofas, (unsigned)profile->slices, (unsigned)slices_of(call.ci),
        memory_mib_of(call.gpu, profile)};
    return OK;
}

/* ---- GPU instances ---- */

static unsigned mask_of(int start, int size) { return ((1U << size) - 1) << start; }

static unsigned taken(const struct gpu *gpu)
{
    unsigned mask = 0;
    for (int i = 0; i < MAX_INSTANCES; i++) {
        const struct profile *profile = profile_of(gpu, gpu->gis[i].profile);
        if (gpu->gis[i].present && profile) mask |= mask_of(gpu->gis[i].start, profile->size);
    }
    return mask;
}

static int count_of(const struct gpu *gpu, int number)
{
    int n = 0;
    for (int i = 0; i < MAX_INSTANCES; i++) n += gpu->gis[i].present && gpu->gis[i].profile == number;
    return n;
}

static int may_start(const struct gpu *gpu, const struct profile *profile, int start)
{
    return profile->starts >> start & 1 && !(taken(gpu) & mask_of(start, profile->size))
        && count_of(gpu, profile->number) < profile->most;
}

static void gi_profile(const struct gpu *gpu, const struct profile *profile, struct gi_profile_v2 *out)
{
    out->id = profile->id;
    out->peer_to_peer = 0;
    out->slices = (unsigned)profile->slices;
    out->instances = (unsigned)profile->most;
    out->multiprocessors = multiprocessors(gpu, profile->slices);
    out->copy_engines = (unsigned)profile->slices;
    out->decoders = (unsigned)profile->decoders;
    out->encoders = (unsigned)profile->encoders;
    out->jpegs = (unsigned)profile->jpegs;
    out->ofas = (unsigned)profile->ofas;
    out->memory_mib = memory_mib_of(gpu, profile);
    memcpy(out->name, "MIG ", 4);
    profile_name(gpu, profile, profile->slices, out->name + 4, sizeof out->name - 4);
}

API int nvmlDeviceGetGpuInstanceProfileInfoV(handle device, unsigned number, struct gi_profile_v2 *out)
{
    ENTER(GPU, device);
    const struct profile *profile = profile_of(call.gpu, (int)number);
    if (!out || number >= PROFILE_NUMBERS) return INVALID_ARGUMENT;
    if (!profile) return NOT_SUPPORTED;
    if (out->version != VERSION(struct gi_profile_v2, 2)) return ARGUMENT_VERSION_MISMATCH;
    gi_profile(call.gpu, profile, out);
    return OK;
}

API int nvmlDeviceGetGpuInstanceProfileInfo(handle device, unsigned number, struct gi_profile *out)
{
    ENTER(GPU, device);
    const struct profile *profile = profile_of(call.gpu, (int)number);
    struct gi_profile_v2 facts = {0};
    if (!out || number >= PROFILE_NUMBERS) return INVALID_ARGUMENT;
    if (!profile) return NOT_SUPPORTED;
    gi_profile(call.gpu, profile, &facts);
    *out = (struct gi_profile){facts.id, facts.peer_to_peer, facts.slices, facts.instances, facts.multiprocessors,
        facts.copy_engines, facts.decoders, facts.encoders, facts.jpegs, facts.ofas, facts.memory_mib};
    return OK;
}

API int nvmlDeviceGetGpuInstancePossiblePlacements_v2(
    handle device, unsigned id, struct placement *out, unsigned *n)
{
    ENTER(GPU, device);
    const struct profile *profile = profile_by_id(call.gpu, id);
    unsigned found = 0;
    if (!n) return INVALID_ARGUMENT;
    if (!profile || !enabled(call.gpu)) return NOT_SUPPORTED;
    for (int start = 0; start < units_of(call.gpu); start++) {
        if (!(profile->starts >> start & 1)) continue;
        if (out && found < *n) out[found] = (struct placement){(unsigned)start, (unsigned)profile->size};
        found++;
    }
    int code = out && found > *n ? INSUFFICIENT_SIZE : OK;
    *n = found;
    return code;
}

API int nvmlDeviceGetGpuInstanceRemainingCapacity(handle device, unsigned id, unsigned *out)
{
    ENTER(GPU, device);
    const struct profile *profile = profile_by_id(call.gpu, id);
    unsigned busy_units = taken(call.gpu);
    if (!out) return INVALID_ARGUMENT;
    if (!profile) return NOT_SUPPORTED;
    const int room = profile->most - count_of(call.gpu, profile->number);
    *out = 0;
    for (int start = 0; start < units_of(call.gpu) && (int)*out < room; start++)
        if (profile->starts >> start & 1 && !(busy_units & mask_of(start, profile->size))) {
            busy_units |= mask_of(start, profile->size);
            ++*out;
        }
    return OK;
}

/* Small numbers for big instances, as the driver gives them. */
static int free_gi_id(const struct gpu *gpu, int size)
{
    for (int id = size >= 8 ? 0 : size >= 4 ? 1 : size >= 2 ? 3 : 7; id < 64; id++) {
        int used = 0;
        for (int i = 0; i < MAX_INSTANCES; i++) used |= gpu->gis[i].present && gpu->gis[i].id == id;
        if (!used) return id;
    }
    return -1;
}

static int create_gi(struct call *call, unsigned id, int start, handle *out)
{
    char line[96];
    const struct profile *profile = profile_by_id(call->gpu, id);
    if (!out) return INVALID_ARGUMENT;
    if (!call->gpu->has_mig_mode || !enabled(call->gpu)) return NOT_SUPPORTED;
    if (!profile) return INVALID_ARGUMENT;
    for (int at = 0; start < 0 && at < units_of(call->gpu); at++)
        if (may_start(call->gpu, profile, at)) start = at;
    if (start < 0 || start >= units_of(call->gpu) || !may_start(call->gpu, profile, start))
        return INSUFFICIENT_RESOURCES;
    const int gi = free_gi_id(call->gpu, profile->size);
    snprintf(line, sizeof line, "gi %d %d %d %d\n", call->slot, gi, profile->number, start);
    *out = gi_handle(call->slot, gi);
    return record_change(line);
}

API int nvmlDeviceCreateGpuInstance(handle device, unsigned id, handle *out)
{
    CHANGE(GPU, device);
    return create_gi(&call, id, -1, out);
}

API int nvmlDeviceCreateGpuInstanceWithPlacement(
    handle device, unsigned id, const struct placement *placement, handle *out)
{
    CHANGE(GPU, device);
    return placement ? create_gi(&call, id, (int)placement->start, out) : INVALID_ARGUMENT;
}

static int has_ci(const struct gpu *gpu, int gi)
{
    for (int i = 0; i < MAX_INSTANCES; i++)
        if (gpu->cis[i].present && gpu->cis[i].gi == gi) return 1;
    return 0;
}

API int nvmlGpuInstanceDestroy(handle gi)
{
    CHANGE(GPU_INSTANCE, gi);
    char line[64];
    if (has_ci(call.gpu, call.gi->id) || busy(&call, (unsigned)call.gi->id)) return IN_USE;
    snprintf(line, sizeof line, "-gi %d %d\n", call.slot, call.gi->id);
    return record_change(line);
}

API int nvmlDeviceGetGpuInstances(handle device, unsigned id, handle *out, unsigned *n)
{
    ENTER(GPU, device);
    const struct profile *profile = profile_by_id(call.gpu, id);
    if (!out || !n) return INVALID_ARGUMENT;
    if (!profile) return NOT_SUPPORTED;
    *n = 0;
    for (int i = 0; i < MAX_INSTANCES; i++)
        if (call.gpu->gis[i].present && call.gpu->gis[i].profile == profile->number)
            out[(*n)++] = gi_handle(call.slot, call.gpu->gis[i].id);
    return OK;
}

API int nvmlDeviceGetGpuInstanceById(handle device, unsigned id, handle *out)
{
    ENTER(GPU, device);
    if (!out) return INVALID_ARGUMENT;
    for (int i = 0; i < MAX_INSTANCES; i++)
        if (call.gpu->gis[i].present && (unsigned)call.gpu->gis[i].id == id) {
            *out = gi_handle(call.slot, (int)id);
            return OK;
        }
    return NOT_FOUND;
}

API int nvmlGpuInstanceGetInfo(handle gi, struct gi_info *out)
{
    ENTER(GPU_INSTANCE, gi);
    const struct profile *profile = profile_of(call.gpu, call.gi->profile);
    if (!out) return INVALID_ARGUMENT;
    if (!profile) return UNKNOWN;
    *out = (struct gi_info){device_handle(call.slot), (unsigned)call.gi->id, profile->id,
        {(unsigned)call.gi->start, (unsigned)profile->size}};
    return OK;
}

/* ---- compute instances ---- */

static int ci_most(const struct profile *profile, unsigned number)
{
    if (number >= 8 || ci_slices[number] > profile->slices) return 0;
    if (number == 7) return *profile->suffix == '+';
    if (ci_slices[number] > 4 && ci_slices[number] != profile->slices) return 0;
    if (ci_slices[number] == 3 && profile->slices == 4) return 0;
    return ci_slices[number] == 4 ? 1 : profile->slices / ci_slices[number];
}

static int ci_profile(struct call *call, unsigned number, unsigned engines, struct ci_profile_v2 *out)
{
    const struct profile *profile = profile_of(call->gpu, call->gi->profile);
    if (!out || number > 8 || engines) return INVALID_ARGUMENT;
    if (!profile || !ci_most(profile, number)) return NOT_SUPPORTED;
    const int slices = ci_slices[number];
    *out = (struct ci_profile_v2){out->version, number, (unsigned)slices, (unsigned)ci_most(profile, number),
        multiprocessors(call->gpu, slices), (unsigned)profile->slices, (unsigned)profile->decoders,
        (unsigned)profile->encoders, (unsigned)profile->jpegs, (unsigned)profile->ofas, "MIG "};
    profile_name(call->gpu, profile, slices, out->name + 4, sizeof out->name - 4);
    return OK;
}

API int nvmlGpuInstanceGetComputeInstanceProfileInfoV(
    handle gi, unsigned number, unsigned engines, struct ci_profile_v2 *out)
{
    ENTER(GPU_INSTANCE, gi);
    if (out && out->version != VERSION(struct ci_profile_v2, 2)) return ARGUMENT_VERSION_MISMATCH;
    return ci_profile(&call, number, engines, out);
}

API int nvmlGpuInstanceGetComputeInstanceProfileInfo(
    handle gi, unsigned number, unsigned engines, struct ci_profile *out)
{
    ENTER(GPU_INSTANCE, gi);
    struct ci_profile_v2 facts = {0};
    if (!out) return INVALID_ARGUMENT;
    int code = ci_profile(&call, number, engines, &facts);
    *out = (struct ci_profile){facts.id, facts.slices, facts.instances, facts.multiprocessors, facts.copy_engines,
        facts.decoders, facts.encoders, facts.jpegs, facts.ofas};
    return code;
}

/* What the driver does, too: the same place on the same GPU has the same uuid again. */
static void mig_uuid(const struct gpu *gpu, int gi, int ci, char out[TEXT])
{
    unsigned long long parts[2];
    for (int part = 0; part < 2; part++) {
        unsigned long long hash = 14695981039346656037ULL + (unsigned)part;
        char seed[TEXT + 32];
        snprintf(seed, sizeof seed, "%s/%d/%d", gpu->uuid, gi, ci);
        for (const char *at = seed; *at; at++) hash = (hash ^ (unsigned char)*at) * 1099511628211ULL;
        parts[part] = hash;
    }
    snprintf(out, TEXT, "MIG-%08llx-%04llx-5%03llx-8%03llx-%012llx", parts[0] >> 32, parts[0] >> 16 & 0xffff,
        parts[0] & 0xfff, parts[1] >> 52, parts[1] & 0xffffffffffffULL);
}

static int slices_taken(const struct gpu *gpu, int gi)
{
    int n = 0;
    for (int i = 0; i < MAX_INSTANCES; i++)
        if (gpu->cis[i].present && gpu->cis[i].gi == gi) n += slices_of(&gpu->cis[i]);
    return n;
}

API int nvmlGpuInstanceCreateComputeInstance(handle gi, unsigned number, handle *out)
{
    CHANGE(GPU_INSTANCE, gi);
    char line[TEXT + 64], uuid[TEXT];
    const struct profile *profile = profile_of(call.gpu, call.gi->profile);
    if (!out || !profile || !ci_most(profile, number)) return INVALID_ARGUMENT;
    if (slices_taken(call.gpu, call.gi->id) + ci_slices[number] > profile->slices) return INSUFFICIENT_RESOURCES;
    int id = 0;
    for (int i = 0; i < MAX_INSTANCES; i++)
        if (call.gpu->cis[i].present && call.gpu->cis[i].gi == call.gi->id && call.gpu->cis[i].id == id) {
            id++;
            i = -1;
        }
    mig_uuid(call.gpu, call.gi->id, id, uuid);
    snprintf(line, sizeof line, "ci %d %d %d %u %s\n", call.slot, call.gi->id, id, number, uuid);
    *out = ci_handle(call.slot, call.gi->id, id);
    return record_change(line);
}

API int nvmlComputeInstanceDestroy(handle ci)
{
    CHANGE(COMPUTE_INSTANCE, ci);
    char line[64];
    if (busy(&call, (unsigned)call.gi->id)) return IN_USE;
    snprintf(line, sizeof line, "-ci %d %d %d\n", call.slot, call.ci->gi, call.ci->id);
    return record_change(line);
}

API int nvmlGpuInstanceGetComputeInstances(handle gi, unsigned number, handle *out, unsigned *n)
{
    ENTER(GPU_INSTANCE, gi);
    if (!out || !n) return INVALID_ARGUMENT;
    *n = 0;
    for (int i = 0; i < MAX_INSTANCES; i++) {
        const struct compute_instance *ci = &call.gpu->cis[i];
        if (ci->present && ci->gi == call.gi->id && (unsigned)ci->profile == number)
            out[(*n)++] = ci_handle(call.slot, ci->gi, ci->id);
    }
    return OK;
}

API int nvmlGpuInstanceGetComputeInstanceById(handle gi, unsigned id, handle *out)
{
    ENTER(GPU_INSTANCE, gi);
    if (!out) return INVALID_ARGUMENT;
    for (int i = 0; i < MAX_INSTANCES; i++) {
        const struct compute_instance *ci = &call.gpu->cis[i];
        if (ci->present && ci->gi == call.gi->id && (unsigned)ci->id == id) {
            *out = ci_handle(call.slot, ci->gi, ci->id);
            return OK;
        }
    }
    return NOT_FOUND;
}

API int nvmlComputeInstanceGetInfo_v2(handle ci, struct ci_info *out)
{
    ENTER(COMPUTE_INSTANCE, ci);
    unsigned start = 0;
    if (!out) return INVALID_ARGUMENT;
    for (const struct compute_instance *at = call.gpu->cis; at != call.ci; at++)
        if (at->gi == call.ci->gi) start += (unsigned)slices_of(at);
    *out = (struct ci_info){device_handle(call.slot), gi_handle(call.slot, call.ci->gi), (unsigned)call.ci->id,
        (unsigned)call.ci->profile, {start, (unsigned)slices_of(call.ci)}};
    return OK;
}
