/* How GPUs reach one another and the processors. */

#include "state.h"
#include "structs.h"

#include <stdio.h>
#include <string.h>

/* ---- NVLink ---- */

static struct link *link_of(struct call *call, unsigned number)
{
    return number < MAX_LINKS && call->gpu->links[number].present ? &call->gpu->links[number] : NULL;
}

/* A number past the last possible link is wrong; a link that the GPU has not is not supported. */
static int no_link(unsigned number) { return number < MAX_LINKS ? NOT_SUPPORTED : INVALID_ARGUMENT; }

API int nvmlDeviceGetNvLinkState(handle device, unsigned number, unsigned *out)
{
    ENTER(GPU, device);
    struct link *link = link_of(&call, number);
    if (!out) return INVALID_ARGUMENT;
    if (!link) return no_link(number);
    *out = (unsigned)link->active;
    return OK;
}

API int nvmlDeviceGetNvLinkVersion(handle device, unsigned number, unsigned *out)
{
    ENTER(GPU, device);
    if (!link_of(&call, number)) return no_link(number);
    GIVE(nvlink_version, out);
}

API int nvmlDeviceGetNvLinkCapability(handle device, unsigned number, unsigned capability, unsigned *out)
{
    ENTER(GPU, device);
    if (!out || capability > 5) return INVALID_ARGUMENT;
    if (!link_of(&call, number)) return no_link(number);
    *out = capability == 0 || capability == 2 || capability == 5; /* peer access and atomics, a valid link */
    return OK;
}

API int nvmlDeviceGetNvLinkRemotePciInfo_v2(handle device, unsigned number, struct pci *out)
{
    ENTER(GPU, device);
    struct link *link = link_of(&call, number);
    if (!out) return INVALID_ARGUMENT;
    if (!link) return no_link(number);
    memset(out, 0, sizeof *out);
    const char *bus_id = *link->bus_id ? link->bus_id
        : link->peer >= 0 ? call.state->gpus[link->peer].pci_bus_id : "FFFFFFFF:FFFF:FF.0"; /* an NVSwitch */
    if (sscanf(bus_id, "%x:%x:%x", &out->domain, &out->bus, &out->device) != 3) return NOT_SUPPORTED;
    snprintf(out->bus_id, sizeof out->bus_id, "%s", bus_id);
    snprintf(out->legacy_bus_id, sizeof out->legacy_bus_id, "%04X:%02X:%02X.0", out->domain & 0xffff,
        out->bus & 0xff, out->device & 0xff);
    if (link->peer >= 0) out->device_id = (unsigned)call.state->gpus[link->peer].pci_device_id;
    return OK;
}

API int nvmlDeviceGetNvLinkRemoteDeviceType(handle device, unsigned number, unsigned *out)
{
    ENTER(GPU, device);
    struct link *link = link_of(&call, number);
    if (!out) return INVALID_ARGUMENT;
    if (!link) return no_link(number);
    *out = link->peer >= 0 ? 0 : link->peer == -1 ? 2 : 0xff;
    return OK;
}

API int nvmlDeviceGetNvLinkErrorCounter(handle device, unsigned number, unsigned counter, unsigned long long *out)
{
    ENTER(GPU, device);
    static const int totals[] = {52, 59, 38, 45, 160}; /* the fields that count the same on all links */
    if (!out || counter > 4) return INVALID_ARGUMENT;
    if (!link_of(&call, number)) return no_link(number);
    *out = 0;
    for (int i = 0; i < call.state->fields_n; i++) {
        const struct number *field = &call.state->fields[i];
        if (field->slot == call.slot && field->id == totals[counter] && number == 0)
            *out = (unsigned long long)field->value;
    }
    return OK;
}

/* ---- pairs ---- */

static int second(struct call *call, handle device, int *slot)
{
    unsigned value = (unsigned)(uintptr_t)device;
    *slot = (int)(value >> 16 & 0xff);
    if (*slot >= MAX_GPUS || device != device_handle(*slot)) return INVALID_ARGUMENT;
    const struct gpu *gpu = &call->state->gpus[*slot];
    return gpu->present && !gpu->lost ? OK : GPU_IS_LOST;
}

/* Without a line about the pair: one board when it is one GPU, else what the NUMA nodes say. */
API int nvmlDeviceGetTopologyCommonAncestor(handle device, handle other, unsigned *out)
{
    ENTER(GPU, device);
    int slot, code = second(&call, other, &slot);
    if (code || !out) return code ? code : INVALID_ARGUMENT;
    const struct gpu *peer = &call.state->gpus[slot];
    int level = call.state->levels[call.slot][slot];
    if (!level && slot != call.slot) level = call.gpu->numa == peer->numa ? 40 : 50;
    *out = (unsigned)level;
    return OK;
}

static int linked(struct call *call, int slot)
{
    int to_switch = 0, peer_to_switch = 0;
    for (int i = 0; i < MAX_LINKS; i++) {
        const struct link *link = &call->gpu->links[i], *back = &call->state->gpus[slot].links[i];
        if (link->present && link->active && link->peer == slot) return 1;
        to_switch |= link->present && link->active && link->peer == -1;
        peer_to_switch |= back->present && back->active && back->peer == -1;
    }
    return to_switch && peer_to_switch;
}

API int nvmlDeviceGetP2PStatus(handle device, handle other, unsigned index, unsigned *out)
{
    ENTER(GPU, device);
    int slot, code = second(&call, other, &slot);
    if (code || !out || index > 4) return code ? code : INVALID_ARGUMENT;
    if (call.state->no_peer_access[call.slot][slot]) *out = 5;
    else if (index == 2) *out = linked(&call, slot) ? 0 : 5;
    else *out = 0;
    return OK;
}

/* ---- affinity ---- */

API int nvmlDeviceGetMemoryAffinity(handle device, unsigned size, unsigned long *out, unsigned scope)
{
    ENTER(GPU, device);
    if (!out || scope > 1) return INVALID_ARGUMENT;
    if (!call.gpu->has_numa || call.gpu->numa < 0) return NOT_SUPPORTED;
    unsigned long node = (unsigned long)call.gpu->numa;
    if (node / 64 >= size) return INSUFFICIENT_SIZE;
    memset(out, 0, size * sizeof *out);
    out[node / 64] = 1UL << node % 64;
    return OK;
}

API int nvmlDeviceGetCpuAffinity(handle device, unsigned size, unsigned long *out)
{
    ENTER(GPU, device);
    if (!out) return INVALID_ARGUMENT;
    if (!call.gpu->has_cpu_first || !call.gpu->has_cpu_last) return NOT_SUPPORTED;
    if (call.gpu->cpu_first < 0 || call.gpu->cpu_last / 64 >= size) return INSUFFICIENT_SIZE;
    memset(out, 0, size * sizeof *out);
    for (long long cpu = call.gpu->cpu_first; cpu <= call.gpu->cpu_last; cpu++) out[cpu / 64] |= 1UL << cpu % 64;
    return OK;
}

/* ---- the fabric of a rack ---- */

static int fabric(struct call *call, struct fabric_v3 *out)
{
    const struct gpu *gpu = call->gpu;
    if (!gpu->has_fabric_state) return NOT_SUPPORTED;
    unsigned digit = 0;
    for (const char *at = gpu->fabric_cluster; *at && digit < 32; at++) {
        unsigned value = *at >= '0' && *at <= '9' ? (unsigned)(*at - '0')
            : (*at | 32) >= 'a' && (*at | 32) <= 'f' ? (unsigned)((*at | 32) - 'a' + 10) : 16;
        if (value > 15) continue; /* a dash */
        out->cluster[digit / 2] = (unsigned char)(digit % 2 ? out->cluster[digit / 2] | value : value << 4);
        digit++;
    }
    out->status = (int)gpu->fabric_status;
    out->clique = (uint32_t)gpu->fabric_clique;
    out->state = (unsigned)gpu->fabric_state;
    out->health = (uint32_t)gpu->fabric_health;
    out->summary = (uint8_t)(gpu->has_fabric_health ? 1 : 0);
    return OK;
}

API int nvmlDeviceGetGpuFabricInfo(handle device, struct fabric *out)
{
    ENTER(GPU, device);
    struct fabric_v3 facts = {0};
    if (!out) return INVALID_ARGUMENT;
    int code = fabric(&call, &facts);
    if (code) return code;
    memcpy(out->cluster, facts.cluster, sizeof out->cluster);
    out->status = facts.status;
    out->clique = facts.clique;
    out->state = facts.state;
    return OK;
}

API int nvmlDeviceGetGpuFabricInfoV(handle device, struct fabric_v3 *out)
{
    ENTER(GPU, device);
    struct fabric_v3 facts = {0};
    if (!out) return INVALID_ARGUMENT;
    const unsigned version = out->version;
    if (version != VERSION(struct fabric_v2, 2) && version != VERSION(struct fabric_v3, 3))
        return ARGUMENT_VERSION_MISMATCH;
    int code = fabric(&call, &facts);
    if (code) return code;
    facts.version = version; /* the second is the third without its last field */
    memcpy(out, &facts, version == VERSION(struct fabric_v2, 2) ? sizeof(struct fabric_v2) : sizeof facts);
    return OK;
}
