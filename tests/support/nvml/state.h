/* What the pretended driver knows, read from a file of plain lines: see state.c for its grammar. */

#ifndef TONNAGE_NVML_STATE_H
#define TONNAGE_NVML_STATE_H

#include <stdint.h>

#define API __attribute__((visibility("default")))

enum {
    OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9, TIMED_OUT = 10, GPU_IS_LOST = 15, RESET_REQUIRED = 16,
    CORRUPTED_INFOROM = 14, LIB_RM_VERSION_MISMATCH = 18, IN_USE = 19, MEMORY = 20, INSUFFICIENT_RESOURCES = 23,
    ARGUMENT_VERSION_MISMATCH = 25, UNKNOWN = 999
};

enum {
    MAX_GPUS = 64, MAX_LINKS = 36, MAX_INSTANCES = 16, MAX_RULES = 64, MAX_EVENTS = 256, MAX_PROCESSES = 64,
    MAX_NUMBERS = 2048, PROFILE_NUMBERS = 18, TEXT = 96, PATH = 512
};

/* The facts of a GPU that are one number each; the names are the file's words with '-' for '_'. */
#define NUMBERS(X) \
    X(lost) X(minor) X(memory_mib) X(memory_used_mib) X(memory_reserved_mib) X(bar1_mib) X(bar1_used_mib) \
    X(pci_device_id) X(pci_subsystem_id) X(pci_class) X(architecture) X(brand) X(capability_major) \
    X(capability_minor) X(numa) X(memory_numa) X(cpu_first) X(cpu_last) X(gpu_utilization) X(memory_utilization) \
    X(encoder_utilization) X(decoder_utilization) X(temperature) X(temperature_slowdown) \
    X(temperature_shutdown) X(power_mw) X(power_limit_mw) X(power_default_mw) X(power_min_mw) \
    X(power_max_mw) X(energy_mj) X(clock_graphics) X(clock_sm) X(clock_memory) X(clock_video) \
    X(clock_max_graphics) X(clock_max_sm) X(clock_max_memory) X(clock_max_video) X(clock_reasons) \
    X(performance_state) X(ecc_mode) X(ecc_pending) X(ecc_corrected_volatile) X(ecc_uncorrected_volatile) \
    X(ecc_corrected_aggregate) X(ecc_uncorrected_aggregate) X(remapped_corrected) X(remapped_uncorrected) \
    X(remap_pending) X(remap_failure) X(retired_pending) X(persistence) X(compute_mode) X(pcie_generation) \
    X(pcie_width) X(pcie_max_generation) X(pcie_max_width) X(pcie_replays) X(pcie_tx_kib_s) \
    X(pcie_rx_kib_s) X(fan_percent) X(mig_mode) X(mig_pending) X(mig_family) X(mig_needs_reset) \
    X(multiprocessors) X(slice_multiprocessors) X(nvlink_version) X(event_types) X(gpm) X(fabric_state) X(fabric_status) \
    X(fabric_clique) X(fabric_health) X(recovery_action) X(module_id) X(board_id) X(memory_temperature) \
    X(retired_pages) X(sram_threshold) X(row_banks_max) X(row_banks_high) X(row_banks_partial) \
    X(row_banks_low) X(row_banks_none) X(licensed) X(clock_application_graphics) X(clock_application_memory) \
    X(auto_boost) X(temperature_margin) X(memory_unrepairable) X(confidential) X(virtual_mode) \
    X(inforom_checksum) X(inforom_corrupt) X(rack_slot) X(rack_tray) X(rack_host) \
    X(rack_peers) X(rack_module)

#define TEXTS(X) X(uuid) X(name) X(serial) X(pci_bus_id) X(vbios) X(part_number) X(fabric_cluster) X(inforom) X(inforom_image) \
    X(rack_serial)

struct link { int present, active, peer; char bus_id[32]; }; /* peer: a slot; -1 NVSwitch; -2 unknown */
struct gpu_instance { int present, id, profile, start; };
struct compute_instance { int present, gi, id, profile; char uuid[TEXT]; };

struct gpu {
    int present;
#define X(name) long long name; int has_##name;
    NUMBERS(X)
#undef X
#define X(name) char name[TEXT];
    TEXTS(X)
#undef X
    long long gi_mib[PROFILE_NUMBERS];
    struct link links[MAX_LINKS];
    struct gpu_instance gis[MAX_INSTANCES];
    struct compute_instance cis[MAX_INSTANCES]; /* in the order of the MIG devices */
};

enum rule_kind { RULE_ERROR, RULE_SLOW, RULE_HANG };
struct rule { enum rule_kind kind; char function[64]; int slot; long long value; }; /* slot -1: any */
struct event { long long sequence; int slot; unsigned long long type, data; unsigned gi, ci; };
struct process { int slot; unsigned pid, gi, ci; unsigned long long bytes; int kind; };
struct use { int slot; unsigned pid, percent; unsigned long long at; };
struct number { int slot, id; double value; }; /* a field value or a GPM metric */

struct state {
    char driver[TEXT], nvml[TEXT], calls_file[PATH];
    int cuda, counted_at_init, rules_n, events_n, processes_n, uses_n, fields_n, metrics_n;
    struct gpu gpus[MAX_GPUS];
    int levels[MAX_GPUS][MAX_GPUS];
    signed char no_peer_access[MAX_GPUS][MAX_GPUS];
    struct rule rules[MAX_RULES];
    struct event events[MAX_EVENTS];
    struct process processes[MAX_PROCESSES];
    struct use uses[MAX_PROCESSES];
    struct number fields[MAX_NUMBERS], metrics[MAX_NUMBERS];
};

typedef struct handle *handle; /* a number, never followed */

/* What a call is about. Everything but `code` may be read only while the call lasts: it holds the lock. */
struct call {
    int code, locked, slot, changes; /* changes: the file that keeps other processes from changing; 0 for none */
    const char *function;
    struct state *state;
    struct gpu *gpu;
    struct gpu_instance *gi;
    struct compute_instance *ci;
};

enum about { NODE, GPU, MIG, GPU_OR_MIG, GPU_INSTANCE, COMPUTE_INSTANCE, BEFORE_INIT };

struct call enter(const char *function, enum about about, handle subject);
struct call enter_to_change(const char *function, enum about about, handle subject); /* alone of all processes */
void leave(struct call *call);
int rules_about(struct call *call, const char *function, int slot); /* for a GPU found in a call about the node */
int watch_state(void); /* tells of changes of the state file; to be closed; -1 where there is no such thing */
void pause_until_change(struct call *call, int watch, long long milliseconds); /* let others in meanwhile */

#define ENTER(about, subject) \
    struct call call __attribute__((cleanup(leave))) = enter(__func__, about, (handle)(subject)); \
    if (call.code) return call.code

#define CHANGE(about, subject) \
    struct call call __attribute__((cleanup(leave))) = enter_to_change(__func__, about, (handle)(subject)); \
    if (call.code) return call.code

/* Return a number of the GPU through a pointer; NOT_SUPPORTED where the file does not state it. */
#define GIVE(field, pointer) \
    do { \
        if (!(pointer)) return INVALID_ARGUMENT; \
        if (!call.gpu->has_##field) return NOT_SUPPORTED; \
        *(pointer) = (__typeof__(*(pointer)))call.gpu->field; \
        return OK; \
    } while (0)

handle device_handle(int slot);
handle mig_handle(int slot, int gi, int ci);
handle gi_handle(int slot, int gi);
handle ci_handle(int slot, int gi, int ci);
int enumerated(struct state *state, int slots[MAX_GPUS]);
int give_text(char *out, unsigned size, const char *text);
int record_change(const char *line); /* of MIG: kept beside the state file; call it after CHANGE */
long long monotonic_ms(void);
int begin_session(void);
int end_session(void);

#endif
