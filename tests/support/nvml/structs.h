/* The layouts that nvidia-ml-py passes; a version field holds size | number << 24. */

#ifndef TONNAGE_NVML_STRUCTS_H
#define TONNAGE_NVML_STRUCTS_H

#include <stdint.h>

#define VERSION(type, number) ((unsigned)sizeof(type) | (unsigned)(number) << 24)

struct memory { unsigned long long total, free, used; };
struct memory_v2 { unsigned version; unsigned long long total, reserved, free, used; };
struct pci { char legacy_bus_id[16]; unsigned domain, bus, device, device_id, subsystem_id; char bus_id[32]; };
struct pci_ext {
    unsigned version, domain, bus, device, device_id, subsystem_id, base_class, sub_class;
    char bus_id[32];
};
struct utilization { unsigned gpu, memory; };
struct addressing { unsigned version, mode; };
struct temperature { unsigned version; int sensor, celsius; };
struct violation { unsigned long long reference, violation; };
struct row_histogram { unsigned max, high, partial, low, none; };
struct attributes {
    unsigned multiprocessors, copy_engines, decoders, encoders, jpegs, ofas, gi_slices, ci_slices;
    unsigned long long memory_mib;
};
struct placement { unsigned start, size; };
struct gi_profile {
    unsigned id, peer_to_peer, slices, instances, multiprocessors, copy_engines, decoders, encoders, jpegs, ofas;
    unsigned long long memory_mib;
};
struct gi_profile_v2 {
    unsigned version, id, peer_to_peer, slices, instances, multiprocessors, copy_engines, decoders, encoders,
        jpegs, ofas;
    unsigned long long memory_mib;
    char name[96];
};
struct gi_info { void *device; unsigned id, profile_id; struct placement placement; };
struct ci_profile {
    unsigned id, slices, instances, multiprocessors, copy_engines, decoders, encoders, jpegs, ofas;
};
struct ci_profile_v2 {
    unsigned version, id, slices, instances, multiprocessors, copy_engines, decoders, encoders, jpegs, ofas;
    char name[96];
};
struct ci_info { void *device, *gi; unsigned id, profile_id; struct placement placement; };
struct process_info { unsigned pid; unsigned long long bytes; unsigned gi, ci; };
struct use_sample { unsigned pid; unsigned long long at; unsigned sm, memory, encoder, decoder; };
struct event_data { void *device; unsigned long long type, data; unsigned gi, ci; };
union value { double d; unsigned u; unsigned long ul; unsigned long long ull; long long ll; int i; unsigned short us; };
struct field_value {
    uint32_t id, scope;
    int64_t timestamp, latency;
    unsigned type;
    int code;
    union value value;
};
struct fabric { unsigned char cluster[16]; int status; uint32_t clique; unsigned state; };
struct fabric_v2 {
    unsigned version;
    unsigned char cluster[16];
    int status;
    uint32_t clique;
    unsigned state;
    uint32_t health;
};
struct fabric_v3 {
    unsigned version;
    unsigned char cluster[16];
    int status;
    uint32_t clique;
    unsigned state;
    uint32_t health;
    uint8_t summary;
};
struct sram_errors { unsigned version; unsigned long long counts[11]; unsigned threshold_exceeded; };
struct license {
    unsigned code, state;
    char text[128], product[128];
    unsigned enabled;
    struct { uint32_t year; uint16_t month, day, hour, minute, second; uint8_t status; } expiry;
};
struct licenses { int supported; unsigned n; struct license features[3]; };
struct flag { unsigned version, set; };
struct confidential { unsigned environment, feature, tools; };
struct platform {
    unsigned version;
    unsigned char guid[16], serial[16], slot, tray, host, peers, module;
};
struct metric_info { const char *short_name, *long_name, *unit; };
struct metric { unsigned id; int code; double value; struct metric_info info; };
struct metrics { unsigned version, n; void *sample1, *sample2; struct metric metrics[]; };
struct metric_support { unsigned version, supported; };

#endif
