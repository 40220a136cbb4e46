/* Where GPU instances may lie: NVML's profile numbers, the ids that creating takes, starts as a bit mask. What the
 * catalogue has, too, is compared with it in tests/adapters/test_nvml_library_mig.py. */

#ifndef TONNAGE_NVML_MIG_H
#define TONNAGE_NVML_MIG_H

enum { FAMILIES = 1 };

struct profile {
    int number;
    unsigned id;
    int slices, size;
    unsigned starts;
    int most, decoders, encoders, jpegs, ofas;
    const char *suffix;
};

struct family { int units, slices, devices, profiles_n; const struct profile *profiles; };

/* Seven compute slices over eight memory units: A100, H100, H200, B200 and what follows their grid. */
static const struct profile seven_slices[] = {
    {0, 19, 1, 1, 0x7f, 7, 0, 0, 0, 0, ""},      {7, 20, 1, 1, 0x7f, 1, 1, 0, 1, 1, "+me"},
    {9, 15, 1, 2, 0x55, 4, 1, 0, 0, 0, ""},      {1, 14, 2, 2, 0x15, 3, 1, 0, 0, 0, ""},
    {2, 9, 3, 4, 0x11, 2, 2, 0, 0, 0, ""},       {3, 5, 4, 4, 0x01, 1, 2, 0, 0, 0, ""},
    {4, 0, 7, 8, 0x01, 1, 5, 0, 1, 1, ""},
};

#define PROFILES(table) (int)(sizeof table / sizeof *table), table
static const struct family families[FAMILIES] = {
    {8, 7, 7, PROFILES(seven_slices)},
};

#endif
