/* The node and its GPUs: what they are and how they fare. */

#include "state.h"
#include "structs.h"

#include <stdio.h>
#include <string.h>

#define MIB (1ULL << 20)

/* ---- the session ---- */

API int nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    ENTER(BEFORE_INIT, NULL);
    return begin_session();
}

API int nvmlInit_v2(void)
{
    ENTER(BEFORE_INIT, NULL);
    return begin_session();
}

API int nvmlShutdown(void)
{
    struct call call __attribute__((cleanup(leave))) = enter(__func__, NODE, NULL);
    return call.code == UNINITIALIZED ? UNINITIALIZED : end_session(); /* also when the driver is gone */
}

API const char *nvmlErrorString(int code)
{
    static const char *const texts[] = {
        "Success", "Uninitialized", "Invalid Argument", "Not Supported", "Insufficient Permissions",
        "Already Initialized", "Not Found", "Insufficient Size", "Insufficient External Power",
        "Driver Not Loaded", "Timeout", "Interrupt Request Issue", "NVML Shared Library Not Found",
        "Function Not Found", "Corrupted infoROM", "GPU is lost", "GPU requires reset",
        "The operating system has blocked the request", "Driver/library version mismatch",
        "In use by another client", "Insufficient Memory", "No data", "ECC is not supported on this vGPU",
        "Insufficient Resources", "Requested frequency is not supported", "Argument version mismatch",
        "Deprecated", "Not Ready", "GPU not found", "Invalid State", "Reset type not supported"};
    return code >= 0 && code < (int)(sizeof texts / sizeof *texts) ? texts[code] : "Unknown Error";
}

API int nvmlSystemGetDriverVersion(char *out, unsigned size)
{
    ENTER(NODE, NULL);
    return give_text(out, size, call.state->driver);
}

API int nvmlSystemGetNVMLVersion(char *out, unsigned size)
{
    ENTER(NODE, NULL);
    return give_text(out, size, call.state->nvml);
}

API int nvmlSystemGetCudaDriverVersion_v2(int *out)
{
    ENTER(NODE, NULL);
    if (!out) return INVALID_ARGUMENT;
    *out = call.state->cuda;
    return OK;
}

API int nvmlSystemGetCudaDriverVersion(int *out) { return nvmlSystemGetCudaDriverVersion_v2(out); }

API int nvmlSystemGetProcessName(unsigned pid, char *out, unsigned size)
{
    ENTER(NODE, NULL);
    char path[64], name[256] = "";
    snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
    FILE *file = fopen(path, "r");
    if (!file) return NOT_FOUND;
    name[fread(name, 1, sizeof name - 1, file)] = 0;
    fclose(file);
    return *name ? give_text(out, size, name) : NOT_FOUND;
}

/* ---- which GPUs ---- */

API int nvmlDeviceGetCount_v2(unsigned *out)
{
    ENTER(NODE, NULL);
    int slots[MAX_GPUS];
    if (!out) return INVALID_ARGUMENT;
    *out = (unsigned)enumerated(call.state, slots);
    return OK;
}

static int give_device(struct call *call, const char *function, int slot, handle *out)
{
    int code = rules_about(call, function, slot); /* rules about a GPU hold for finding it, too */
    struct gpu *gpu = &call->state->gpus[slot];
    if (code) return code;
    if (!gpu->present || gpu->lost) return GPU_IS_LOST;
    *out = device_handle(slot);
    return OK;
}

API int nvmlDeviceGetHandleByIndex_v2(unsigned index, handle *out)
{
    ENTER(NODE, NULL);
    int slots[MAX_GPUS], n = enumerated(call.state, slots);
    if (!out || index >= (unsigned)n) return INVALID_ARGUMENT;
    return give_device(&call, __func__, slots[index], out);
}

API int nvmlDeviceGetHandleByUUID(const char *uuid, handle *out)
{
    ENTER(NODE, NULL);
    if (!uuid || !out) return INVALID_ARGUMENT;
    for (int slot = 0; slot < MAX_GPUS; slot++) {
        struct gpu *gpu = &call.state->gpus[slot];
        if (gpu->present && !strcmp(gpu->uuid, uuid)) return give_device(&call, __func__, slot, out);
        for (int i = 0; gpu->present && i < MAX_INSTANCES; i++)
            if (gpu->cis[i].present && !strcmp(gpu->cis[i].uuid, uuid)) {
                if (gpu->lost) return GPU_IS_LOST;
                *out = mig_handle(slot, gpu->cis[i].gi, gpu->cis[i].id);
                return OK;
            }
    }
    return NOT_FOUND;
}

API int nvmlDeviceGetHandleBySerial(const char *serial, handle *out)
{
    ENTER(NODE, NULL);
    for (int slot = 0; serial && out && slot < MAX_GPUS; slot++)
        if (call.state->gpus[slot].present && !strcmp(call.state->gpus[slot].serial, serial))
            return give_device(&call, __func__, slot, out);
    return serial && out ? NOT_FOUND : INVALID_ARGUMENT;
}

/* The address in bus ids of any width: "0000:01:00.0" is "00000000:01:00.0". */
static int address(const char *text, unsigned *domain, unsigned *bus, unsigned *device)
{
    unsigned *out[] = {domain, bus, device};
    for (int part = 0; part < 3; part++) {
        unsigned value = 0, digits = 0;
        for (; (*text >= '0' && *text <= '9') || ((*text | 32) >= 'a' && (*text | 32) <= 'f'); text++, digits++)
            value = value << 4 | (unsigned)(*text <= '9' ? *text - '0' : (*text | 32) - 'a' + 10);
        if (!digits || (part < 2 && *text++ != ':')) return 0;
        *out[part] = value;
    }
    return 1;
}

API int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, handle *out)
{
    ENTER(NODE, NULL);
    unsigned wanted[3], has[3];
    if (!bus_id || !out || !address(bus_id, &wanted[0], &wanted[1], &wanted[2])) return INVALID_ARGUMENT;
    for (int slot = 0; slot < MAX_GPUS; slot++)
        if (call.state->gpus[slot].present
            && address(call.state->gpus[slot].pci_bus_id, &has[0], &has[1], &has[2])
            && !memcmp(wanted, has, sizeof has))
            return give_device(&call, __func__, slot, out);
    return NOT_FOUND;
}

API int nvmlDeviceGetIndex(handle device, unsigned *out)
{
    ENTER(GPU_OR_MIG, device);
    int slots[MAX_GPUS], n = enumerated(call.state, slots);
    if (!out) return INVALID_ARGUMENT;
    if (call.ci) {
        *out = (unsigned)(call.ci - call.gpu->cis);
        return OK;
    }
    for (int index = 0; index < n; index++)
        if (slots[index] == call.slot) {
            *out = (unsigned)index;
            return OK;
        }
    return NOT_FOUND;
}

/* ---- what a GPU is ---- */

API int nvmlDeviceGetUUID(handle device, char *out, unsigned size)
{
    ENTER(GPU_OR_MIG, device);
    return give_text(out, size, call.ci ? call.ci->uuid : call.gpu->uuid);
}

#define TEXT_OF_GPU(function, field) \
    API int function(handle device, char *out, unsigned size) \
    { \
        ENTER(GPU, device); \
        return give_text(out, size, call.gpu->field); \
    }
TEXT_OF_GPU(nvmlDeviceGetSerial, serial)
TEXT_OF_GPU(nvmlDeviceGetVbiosVersion, vbios)
TEXT_OF_GPU(nvmlDeviceGetBoardPartNumber, part_number)

#define NUMBER_OF_GPU(function, type, field) \
    API int function(handle device, type *out) \
    { \
        ENTER(GPU, device); \
        GIVE(field, out); \
    }
NUMBER_OF_GPU(nvmlDeviceGetMinorNumber, unsigned, minor)
NUMBER_OF_GPU(nvmlDeviceGetArchitecture, unsigned, architecture)
NUMBER_OF_GPU(nvmlDeviceGetBrand, unsigned, brand)
NUMBER_OF_GPU(nvmlDeviceGetBoardId, unsigned, board_id)
NUMBER_OF_GPU(nvmlDeviceGetModuleId, unsigned, module_id)
NUMBER_OF_GPU(nvmlDeviceGetNumaNodeId, int, memory_numa)
NUMBER_OF_GPU(nvmlDeviceGetPersistenceMode, unsigned, persistence)
NUMBER_OF_GPU(nvmlDeviceGetComputeMode, unsigned, compute_mode)
NUMBER_OF_GPU(nvmlDeviceGetPowerUsage, unsigned, power_mw)
NUMBER_OF_GPU(nvmlDeviceGetPowerManagementLimit, unsigned, power_limit_mw)
NUMBER_OF_GPU(nvmlDeviceGetPowerManagementDefaultLimit, unsigned, power_default_mw)
NUMBER_OF_GPU(nvmlDeviceGetEnforcedPowerLimit, unsigned, power_limit_mw)
NUMBER_OF_GPU(nvmlDeviceGetTotalEnergyConsumption, unsigned long long, energy_mj)
NUMBER_OF_GPU(nvmlDeviceGetPerformanceState, unsigned, performance_state)
NUMBER_OF_GPU(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, clock_reasons)
NUMBER_OF_GPU(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, clock_reasons)
NUMBER_OF_GPU(nvmlDeviceGetCurrPcieLinkGeneration, unsigned, pcie_generation)
NUMBER_OF_GPU(nvmlDeviceGetCurrPcieLinkWidth, unsigned, pcie_width)
NUMBER_OF_GPU(nvmlDeviceGetMaxPcieLinkGeneration, unsigned, pcie_max_generation)
NUMBER_OF_GPU(nvmlDeviceGetGpuMaxPcieLinkGeneration, unsigned, pcie_max_generation)
NUMBER_OF_GPU(nvmlDeviceGetMaxPcieLinkWidth, unsigned, pcie_max_width)
NUMBER_OF_GPU(nvmlDeviceGetPcieReplayCounter, unsigned, pcie_replays)
NUMBER_OF_GPU(nvmlDeviceGetRetiredPagesPendingStatus, unsigned, retired_pending)
NUMBER_OF_GPU(nvmlDeviceGetFanSpeed, unsigned, fan_percent)
NUMBER_OF_GPU(nvmlDeviceGetVirtualizationMode, unsigned long long, virtual_mode)
NUMBER_OF_GPU(nvmlDeviceGetInforomConfigurationChecksum, unsigned, inforom_checksum)
NUMBER_OF_GPU(nvmlDeviceGetSupportedEventTypes, unsigned long long, event_types)

/* 0: none. */
API int nvmlDeviceGetAddressingMode(handle device, struct addressing *out)
{
    ENTER(GPU, device);
    if (out->version != VERSION(struct addressing, 1)) return ARGUMENT_VERSION_MISMATCH;
    out->mode = 0;
    return 0;
}

API int nvmlDeviceGetCudaComputeCapability(handle device, int *major, int *minor)
{
    ENTER(GPU_OR_MIG, device);
    if (!major || !minor) return INVALID_ARGUMENT;
    *major = (int)call.gpu->capability_major;
    *minor = (int)call.gpu->capability_minor;
    return call.gpu->has_capability_major ? OK : NOT_SUPPORTED;
}

static int give_pci(const struct gpu *gpu, struct pci_ext *out)
{
    if (!address(gpu->pci_bus_id, &out->domain, &out->bus, &out->device)) return NOT_SUPPORTED;
    out->device_id = (unsigned)gpu->pci_device_id;
    out->subsystem_id = (unsigned)gpu->pci_subsystem_id;
    out->base_class = (unsigned)gpu->pci_class >> 8 & 0xff;
    out->sub_class = (unsigned)gpu->pci_class & 0xff;
    snprintf(out->bus_id, sizeof out->bus_id, "%08X:%02X:%02X.0", out->domain, out->bus, out->device);
    return OK;
}

API int nvmlDeviceGetPciInfo_v3(handle device, struct pci *out)
{
    ENTER(GPU, device);
    struct pci_ext facts = {0};
    if (!out) return INVALID_ARGUMENT;
    int code = give_pci(call.gpu, &facts);
    *out = (struct pci){"", facts.domain, facts.bus, facts.device, facts.device_id, facts.subsystem_id, ""};
    snprintf(out->legacy_bus_id, sizeof out->legacy_bus_id, "%04X:%02X:%02X.0", facts.domain & 0xffff,
        facts.bus & 0xff, facts.device & 0xff);
    memcpy(out->bus_id, facts.bus_id, sizeof out->bus_id);
    return code;
}

API int nvmlDeviceGetPciInfoExt(handle device, struct pci_ext *out)
{
    ENTER(GPU, device);
    if (!out) return INVALID_ARGUMENT;
    if (out->version != VERSION(struct pci_ext, 1)) return ARGUMENT_VERSION_MISMATCH;
    return give_pci(call.gpu, out);
}

/* ---- how it fares ---- */

API int nvmlDeviceGetBAR1MemoryInfo(handle device, struct memory *out)
{
    ENTER(GPU, device);
    if (!out) return INVALID_ARGUMENT;
    if (!call.gpu->has_bar1_mib) return NOT_SUPPORTED;
    unsigned long long used = (unsigned long long)call.gpu->bar1_used_mib * MIB;
    unsigned long long total = (unsigned long long)call.gpu->bar1_mib * MIB;
    *out = (struct memory){total, total - used, used};
    return OK;
}

API int nvmlDeviceGetUtilizationRates(handle device, struct utilization *out)
{
    ENTER(GPU, device);
    if (!out) return INVALID_ARGUMENT;
    if (!call.gpu->has_gpu_utilization || call.gpu->mig_mode > 0) return NOT_SUPPORTED;
    *out = (struct utilization){(unsigned)call.gpu->gpu_utilization, (unsigned)call.gpu->memory_utilization};
    return OK;
}

#define ENGINE_UTILIZATION(function, field) \
    API int function(handle device, unsigned *out, unsigned *period_us) \
    { \
        ENTER(GPU, device); \
        if (!period_us) return INVALID_ARGUMENT; \
        *period_us = 167000; \
        GIVE(field, out); \
    }
ENGINE_UTILIZATION(nvmlDeviceGetEncoderUtilization, encoder_utilization)
ENGINE_UTILIZATION(nvmlDeviceGetDecoderUtilization, decoder_utilization)

API int nvmlDeviceGetTemperature(handle device, int sensor, unsigned *out)
{
    ENTER(GPU, device);
    if (sensor) return INVALID_ARGUMENT;
    GIVE(temperature, out);
}

API int nvmlDeviceGetTemperatureV(handle device, struct temperature *out)
{
    ENTER(GPU, device);
    if (!out || out->sensor) return INVALID_ARGUMENT;
    if (out->version != VERSION(struct temperature, 1)) return ARGUMENT_VERSION_MISMATCH;
    GIVE(temperature, &out->celsius);
}

API int nvmlDeviceGetTemperatureThreshold(handle device, unsigned threshold, unsigned *out)
{
    ENTER(GPU, device);
    if (threshold == 0) GIVE(temperature_shutdown, out);
    if (threshold == 1) GIVE(temperature_slowdown, out);
    if (threshold == 2 || threshold == 3) GIVE(temperature_slowdown, out); /* memory and GPU may run up to it */
    return NOT_SUPPORTED;
}

API int nvmlDeviceGetPowerManagementLimitConstraints(handle device, unsigned *least, unsigned *most)
{
    ENTER(GPU, device);
    if (!least || !most) return INVALID_ARGUMENT;
    *least = (unsigned)call.gpu->power_min_mw;
    GIVE(power_max_mw, most);
}

API int nvmlDeviceGetClockInfo(handle device, unsigned clock, unsigned *out)
{
    ENTER(GPU, device);
    switch (clock) {
    case 0: GIVE(clock_graphics, out);
    case 1: GIVE(clock_sm, out);
    case 2: GIVE(clock_memory, out);
    case 3: GIVE(clock_video, out);
    default: return INVALID_ARGUMENT;
    }
}

API int nvmlDeviceGetMaxClockInfo(handle device, unsigned clock, unsigned *out)
{
    ENTER(GPU, device);
    switch (clock) {
    case 0: GIVE(clock_max_graphics, out);
    case 1: GIVE(clock_max_sm, out);
    case 2: GIVE(clock_max_memory, out);
    case 3: GIVE(clock_max_video, out);
    default: return INVALID_ARGUMENT;
    }
}

API int nvmlDeviceGetApplicationsClock(handle device, unsigned clock, unsigned *out)
{
    ENTER(GPU, device);
    switch (clock) {
    case 0: GIVE(clock_application_graphics, out);
    case 2: GIVE(clock_application_memory, out);
    default: return INVALID_ARGUMENT;
    }
}

API int nvmlDeviceGetAutoBoostedClocksEnabled(handle device, unsigned *now, unsigned *otherwise)
{
    ENTER(GPU, device);
    if (!now || !otherwise) return INVALID_ARGUMENT;
    *otherwise = 1;
    GIVE(auto_boost, now);
}

API int nvmlDeviceGetMarginTemperature(handle device, struct flag *out)
{
    ENTER(GPU, device);
    if (!out) return INVALID_ARGUMENT;
    if (out->version != VERSION(struct flag, 1)) return ARGUMENT_VERSION_MISMATCH;
    GIVE(temperature_margin, &out->set);
}

API int nvmlDeviceGetUnrepairableMemoryFlag_v1(handle device, struct flag *out)
{
    ENTER(GPU, device);
    if (!out) return INVALID_ARGUMENT;
    if (out->version != VERSION(struct flag, 1)) return ARGUMENT_VERSION_MISMATCH;
    GIVE(memory_unrepairable, &out->set);
}

/* Of the system, as the file has it of its first GPU. */
API int nvmlSystemGetConfComputeState(struct confidential *out)
{
    ENTER(NODE, NULL);
    int slots[MAX_GPUS];
    if (!out) return INVALID_ARGUMENT;
    if (!enumerated(call.state, slots)) return NOT_SUPPORTED;
    call.gpu = &call.state->gpus[slots[0]];
    *out = (struct confidential){0, 0, 0};
    GIVE(confidential, &out->feature);
}

API int nvmlDeviceValidateInforom(handle device)
{
    ENTER(GPU, device);
    if (!call.gpu->has_inforom_corrupt) return NOT_SUPPORTED;
    return call.gpu->inforom_corrupt ? CORRUPTED_INFOROM : OK;
}

API int nvmlDeviceGetPlatformInfo(handle device, struct platform *out)
{
    ENTER(GPU, device);
    const struct gpu *gpu = call.gpu;
    if (!out) return INVALID_ARGUMENT;
    if (out->version != VERSION(struct platform, 2)) return ARGUMENT_VERSION_MISMATCH;
    if (!gpu->has_rack_module) return NOT_SUPPORTED;
    memset(out->guid, 0, sizeof out->guid);
    out->guid[0] = (unsigned char)gpu->rack_module; /* a zero follows, at which no reader may end */
    memcpy(out->serial, gpu->rack_serial, sizeof out->serial);
    out->slot = (unsigned char)gpu->rack_slot;
    out->tray = (unsigned char)gpu->rack_tray;
    out->host = (unsigned char)gpu->rack_host;
    out->peers = (unsigned char)gpu->rack_peers;
    out->module = (unsigned char)gpu->rack_module;
    return OK;
}

API int nvmlDeviceGetEccMode(handle device, unsigned *now, unsigned *pending)
{
    ENTER(GPU, device);
    if (!now || !pending) return INVALID_ARGUMENT;
    *pending = (unsigned)(call.gpu->has_ecc_pending ? call.gpu->ecc_pending : call.gpu->ecc_mode);
    GIVE(ecc_mode, now);
}

API int nvmlDeviceGetTotalEccErrors(handle device, unsigned kind, unsigned counter, unsigned long long *out)
{
    ENTER(GPU, device);
    if (!out || kind > 1 || counter > 1) return INVALID_ARGUMENT;
    if (!call.gpu->has_ecc_mode || !call.gpu->ecc_mode) return NOT_SUPPORTED;
    const struct gpu *gpu = call.gpu;
    *out = (unsigned long long)(counter
        ? (kind ? gpu->ecc_uncorrected_aggregate : gpu->ecc_corrected_aggregate)
        : (kind ? gpu->ecc_uncorrected_volatile : gpu->ecc_corrected_volatile));
    return OK;
}

/* All errors are in device memory (location 2). */
API int nvmlDeviceGetMemoryErrorCounter(
    handle device, unsigned kind, unsigned counter, unsigned location, unsigned long long *out)
{
    if (location == 2) return nvmlDeviceGetTotalEccErrors(device, kind, counter, out);
    ENTER(GPU, device);
    if (!out) return INVALID_ARGUMENT;
    *out = 0;
    return call.gpu->has_ecc_mode && call.gpu->ecc_mode ? OK : NOT_SUPPORTED;
}

API int nvmlDeviceGetRemappedRows(
    handle device, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed)
{
    ENTER(GPU, device);
    if (!corrected || !uncorrected || !pending || !failed) return INVALID_ARGUMENT;
    *corrected = (unsigned)call.gpu->remapped_corrected;
    *uncorrected = (unsigned)call.gpu->remapped_uncorrected;
    *pending = (unsigned)call.gpu->remap_pending;
    GIVE(remap_failure, failed);
}

API int nvmlDeviceGetRowRemapperHistogram(handle device, struct row_histogram *out)
{
    ENTER(GPU, device);
    if (!out) return INVALID_ARGUMENT;
    const struct gpu *gpu = call.gpu;
    *out = (struct row_histogram){(unsigned)gpu->row_banks_max, (unsigned)gpu->row_banks_high,
        (unsigned)gpu->row_banks_partial, (unsigned)gpu->row_banks_low, (unsigned)gpu->row_banks_none};
    return gpu->has_row_banks_max ? OK : NOT_SUPPORTED;
}

/* Their addresses are of no interest. */
API int nvmlDeviceGetRetiredPages(handle device, unsigned cause, unsigned *n, unsigned long long *out)
{
    ENTER(GPU, device);
    if (!n || cause > 1) return INVALID_ARGUMENT;
    if (!call.gpu->has_retired_pages) return NOT_SUPPORTED;
    const unsigned room = *n;
    *n = (unsigned)call.gpu->retired_pages;
    if (room < *n) return INSUFFICIENT_SIZE;
    for (unsigned i = 0; out && i < *n; i++) out[i] = i;
    return OK;
}

API int nvmlDeviceGetSramEccErrorStatus(handle device, struct sram_errors *out)
{
    ENTER(GPU, device);
    if (!out) return INVALID_ARGUMENT;
    if (out->version != VERSION(struct sram_errors, 1)) return ARGUMENT_VERSION_MISMATCH;
    GIVE(sram_threshold, &out->threshold_exceeded);
}

API int nvmlDeviceGetGridLicensableFeatures_v4(handle device, struct licenses *out)
{
    ENTER(GPU, device);
    if (!out) return INVALID_ARGUMENT;
    *out = (struct licenses){.supported = 1, .n = 1};
    GIVE(licensed, &out->features[0].state);
}

API int nvmlDeviceGetInforomVersion(handle device, unsigned object, char *out, unsigned size)
{
    ENTER(GPU, device);
    return object > 2 ? INVALID_ARGUMENT : give_text(out, size, call.gpu->inforom);
}
TEXT_OF_GPU(nvmlDeviceGetInforomImageVersion, inforom_image)

API int nvmlDeviceGetPcieThroughput(handle device, unsigned counter, unsigned *out)
{
    ENTER(GPU, device);
    if (counter == 0) GIVE(pcie_tx_kib_s, out);
    if (counter == 1) GIVE(pcie_rx_kib_s, out);
    return INVALID_ARGUMENT;
}

static int set_compute_mode(struct call *call, unsigned mode)
{
    char line[64];
    if (mode > 3) return INVALID_ARGUMENT;
    snprintf(line, sizeof line, "gpu %d compute-mode %u\n", call->slot, mode);
    return record_change(line);
}

API int nvmlDeviceSetComputeMode(handle device, unsigned mode)
{
    CHANGE(GPU, device);
    return set_compute_mode(&call, mode);
}

/* ---- who uses it ---- */

static int processes(struct call *call, int kind, unsigned *n, struct process_info *out)
{
    unsigned found = 0;
    if (!n) return INVALID_ARGUMENT;
    for (int i = 0; i < call->state->processes_n; i++) {
        const struct process *process = &call->state->processes[i];
        if (process->kind != kind || process->slot != call->slot) continue;
        if (call->ci && (process->gi != (unsigned)call->ci->gi || process->ci != (unsigned)call->ci->id)) continue;
        if (out && found < *n)
            out[found] = (struct process_info){process->pid, process->bytes, process->gi, process->ci};
        found++;
    }
    int code = found > *n ? INSUFFICIENT_SIZE : OK;
    *n = found;
    return code;
}

#define PROCESSES(function, kind) \
    API int function(handle device, unsigned *n, struct process_info *out) \
    { \
        ENTER(GPU_OR_MIG, device); \
        return processes(&call, kind, n, out); \
    }
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, 0)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, 1)
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3, 2)

API int nvmlDeviceGetProcessUtilization(handle device, struct use_sample *out, unsigned *n, unsigned long long since)
{
    unsigned found = 0;
    ENTER(GPU, device);
    if (!n) return INVALID_ARGUMENT;
    if (call.gpu->mig_mode > 0) return NOT_SUPPORTED;
    for (int i = 0; i < call.state->uses_n; i++) {
        const struct use *use = &call.state->uses[i];
        if (use->slot != call.slot || use->at <= since) continue;
        if (out && found < *n) out[found] = (struct use_sample){use->pid, use->at, use->percent, 0, 0, 0};
        found++;
    }
    int code = !found ? NOT_FOUND : !out || found > *n ? INSUFFICIENT_SIZE : OK;
    *n = found;
    return code;
}
