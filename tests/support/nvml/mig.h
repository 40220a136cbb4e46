/* Where GPU instances may lie: NVML's profile numbers, the ids that creating takes, starts as a bit mask. */

#ifndef TONNAGE_NVML_MIG_H
#define TONNAGE_NVML_MIG_H

enum { FAMILIES = 3, PROFILE_NUMBERS = 18 };

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

/* A30: four slices over four units. */
static const struct profile four_slices[] = {
    {3, 0, 4, 4, 0x1, 1, 4, 0, 1, 1, ""},        {1, 5, 2, 2, 0x5, 2, 2, 0, 0, 0, ""},
    {8, 6, 2, 2, 0x5, 1, 2, 0, 1, 1, "+me"},     {0, 14, 1, 1, 0xf, 4, 0, 0, 0, 0, ""},
    {7, 21, 1, 1, 0xf, 1, 1, 0, 1, 1, "+me"},
};

/* RTX PRO 6000 Blackwell: four slices over twelve units. */
static const struct profile twelve_units[] = {
    {0, 14, 1, 3, 0x249, 4, 1, 1, 1, 0, ""},          {7, 21, 1, 3, 0x249, 1, 1, 1, 1, 1, "+me"},
    {10, 47, 1, 3, 0x249, 4, 1, 1, 1, 0, "+gfx"},     {15, 65, 1, 3, 0x249, 1, 4, 4, 4, 1, "+me.all"},
    {13, 67, 1, 3, 0x249, 4, 0, 0, 0, 0, "-me"},      {1, 5, 2, 6, 0x41, 2, 2, 2, 2, 0, ""},
    {11, 35, 2, 6, 0x41, 2, 2, 2, 2, 0, "+gfx"},      {16, 64, 2, 6, 0x41, 1, 4, 4, 4, 1, "+me.all"},
    {14, 66, 2, 6, 0x41, 2, 0, 0, 0, 0, "-me"},       {3, 0, 4, 12, 0x1, 1, 4, 4, 4, 1, ""},
    {12, 32, 4, 12, 0x1, 1, 4, 4, 4, 1, "+gfx"},
};

#define PROFILES(table) (int)(sizeof table / sizeof *table), table
static const struct family families[FAMILIES] = {
    {8, 7, 7, PROFILES(seven_slices)},
    {4, 4, 4, PROFILES(four_slices)},
    {12, 4, 4, PROFILES(twelve_units)},
};

#endif
