/* Field values, GPM metrics and what else is read by number. */

#include "state.h"
#include "structs.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- fields ---- */

enum { VALUE_DOUBLE, VALUE_UINT, VALUE_ULONG, VALUE_ULL };

static int stated(const struct number *numbers, int n, int slot, int id, double *out)
{
    for (int i = 0; i < n; i++)
        if (numbers[i].id == id && (numbers[i].slot == slot || numbers[i].slot < 0)) {
            *out = numbers[i].value;
            return 1;
        }
    return 0;
}

static int links_of(const struct gpu *gpu)
{
    int n = 0;
    for (int i = 0; i < MAX_LINKS; i++) n += gpu->links[i].present;
    return n;
}

/* The fields that follow from facts stated otherwise. */
static int derived(const struct gpu *gpu, const struct field_value *field, unsigned long long *out)
{
    const struct link *link = field->scope < MAX_LINKS && gpu->links[field->scope].present
        ? &gpu->links[field->scope] : NULL;
#define FROM(name) *out = (unsigned long long)gpu->name; return gpu->has_##name ? OK : NOT_SUPPORTED
    switch (field->id) {
    case 1: FROM(ecc_mode);
    case 2: FROM(ecc_pending);
    case 3: *out = (unsigned long long)gpu->ecc_corrected_volatile; return OK;
    case 4: *out = (unsigned long long)gpu->ecc_uncorrected_volatile; return OK;
    case 5: *out = (unsigned long long)gpu->ecc_corrected_aggregate; return OK;
    case 6: *out = (unsigned long long)gpu->ecc_uncorrected_aggregate; return OK;
    case 31: FROM(retired_pending);
    case 82: FROM(memory_temperature);
    case 83: FROM(energy_mj);
    case 91: *out = (unsigned)links_of(gpu); return OK;
    case 94: FROM(pcie_replays);
    case 142: FROM(remapped_corrected);
    case 143: FROM(remapped_uncorrected);
    case 144: FROM(remap_pending);
    case 145: FROM(remap_failure);
    case 165: if (!link) return NOT_SUPPORTED; *out = (unsigned)link->active; return OK;
    case 166: if (!link) return NOT_SUPPORTED; FROM(nvlink_version);
    case 184: *out = !gpu->mig_needs_reset; return gpu->has_mig_mode ? OK : NOT_SUPPORTED;
    case 185: case 186: FROM(power_mw);
    case 187: FROM(power_min_mw);
    case 188: FROM(power_max_mw);
    case 189: FROM(power_default_mw);
    case 190: case 192: FROM(power_limit_mw);
    case 230: FROM(recovery_action);
    default: return NOT_SUPPORTED;
    }
#undef FROM
}

static int within(unsigned id, unsigned first, unsigned last) { return id >= first && id <= last; }

static unsigned type_of(unsigned id)
{
    const int wide = id == 83 || within(id, 3, 28) || within(id, 74, 81) || within(id, 138, 139) || id >= 296;
    return wide ? VALUE_ULL : VALUE_UINT;
}

static long long now_us(void)
{
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

static void read_field(const struct call *call, struct field_value *field)
{
    double number = 0;
    unsigned long long value = 0;
    memset(&field->value, 0, sizeof field->value);
    field->timestamp = now_us();
    field->latency = 1;
    field->type = type_of(field->id);
    if (stated(call->state->fields, call->state->fields_n, call->slot, (int)field->id, &number)) {
        value = (unsigned long long)number;
        field->code = OK;
    } else {
        field->code = derived(call->gpu, field, &value);
    }
    if (field->type == VALUE_UINT) field->value.u = (unsigned)value;
    else field->value.ull = value;
}

API int nvmlDeviceGetFieldValues(handle device, int n, struct field_value *fields)
{
    ENTER(GPU, device);
    if (!fields || n < 1) return INVALID_ARGUMENT;
    for (int i = 0; i < n; i++) read_field(&call, &fields[i]);
    return OK;
}

/* ---- GPM ---- */

struct sample { int slot, gi; };

API int nvmlGpmQueryDeviceSupport(handle device, struct metric_support *out)
{
    ENTER(GPU, device);
    if (!out) return INVALID_ARGUMENT;
    if (out->version != 1) return ARGUMENT_VERSION_MISMATCH;
    out->supported = call.gpu->gpm > 0;
    return OK;
}

API int nvmlGpmSampleAlloc(struct sample **out)
{
    ENTER(NODE, NULL);
    if (!out) return INVALID_ARGUMENT;
    *out = calloc(1, sizeof **out);
    if (*out) (*out)->slot = -1;
    return *out ? OK : MEMORY;
}

API int nvmlGpmSampleFree(struct sample *sample)
{
    ENTER(NODE, NULL);
    if (!sample) return INVALID_ARGUMENT;
    free(sample);
    return OK;
}

API int nvmlGpmSampleGet(handle device, struct sample *sample)
{
    ENTER(GPU, device);
    if (!sample) return INVALID_ARGUMENT;
    if (call.gpu->gpm <= 0) return NOT_SUPPORTED;
    *sample = (struct sample){call.slot, -1};
    return OK;
}

API int nvmlGpmMigSampleGet(handle device, unsigned gi, struct sample *sample)
{
    ENTER(GPU, device);
    if (!sample) return INVALID_ARGUMENT;
    if (call.gpu->gpm <= 0) return NOT_SUPPORTED;
    for (int i = 0; i < MAX_INSTANCES; i++)
        if (call.gpu->gis[i].present && (unsigned)call.gpu->gis[i].id == gi) {
            *sample = (struct sample){call.slot, (int)gi};
            return OK;
        }
    return NOT_FOUND;
}

/* The metrics of the second sample, as the file has them; those it has not are without data. */
API int nvmlGpmMetricsGet(struct metrics *metrics)
{
    ENTER(NODE, NULL);
    if (!metrics || !metrics->sample1 || !metrics->sample2) return INVALID_ARGUMENT;
    if (metrics->version != 1) return ARGUMENT_VERSION_MISMATCH;
    const struct sample *one = metrics->sample1, *two = metrics->sample2;
    if (one->slot < 0 || one->slot != two->slot || one->gi != two->gi) return INVALID_ARGUMENT;
    if (call.state->gpus[two->slot].lost) return GPU_IS_LOST;
    for (unsigned i = 0; i < metrics->n; i++) {
        struct metric *metric = &metrics->metrics[i];
        const int known = stated(call.state->metrics, call.state->metrics_n, two->slot, (int)metric->id,
            &metric->value);
        metric->code = known ? OK : NOT_SUPPORTED;
    }
    return OK;
}
