// F32, F16 and BF16: elements one after the other. SIGNIFICAND is an enum, for a static member would be a symbol in every cubin.
#pragma once
#include "formats/bits.cuh"

struct F32 {
    static constexpr int BLOCK = 1, BYTES = 4, DENSE = 1;
    enum { SIGNIFICAND = 24 };
    DEVICE float4 four(const unsigned char* row, int i) {
        uint4 w = load_weights16(row + 4 * (size_t)i);
        return {__uint_as_float(w.x), __uint_as_float(w.y), __uint_as_float(w.z), __uint_as_float(w.w)};
    }
    DEVICE float one(const unsigned char* row, int i) {
        return __uint_as_float(load_weights4(row + 4 * (size_t)i));
    }
};

struct F16 {
    static constexpr int BLOCK = 1, BYTES = 2, DENSE = 1;
    enum { SIGNIFICAND = 11 };
    DEVICE float4 four(const unsigned char* row, int i) {
        uint2 w = load_weights8(row + 2 * (size_t)i);
        return {low_half(w.x), high_half(w.x), low_half(w.y), high_half(w.y)};
    }
    DEVICE float one(const unsigned char* row, int i) {
        return f16_to_f32(load_weights2(row + 2 * (size_t)i));
    }
};

struct BF16 {
    static constexpr int BLOCK = 1, BYTES = 2, DENSE = 1;
    enum { SIGNIFICAND = 8 };
    DEVICE float4 four(const unsigned char* row, int i) {
        uint2 w = load_weights8(row + 2 * (size_t)i);
        return {__uint_as_float(w.x << 16), __uint_as_float(w.x & 0xffff0000), __uint_as_float(w.y << 16),
                        __uint_as_float(w.y & 0xffff0000)};
    }
    DEVICE float one(const unsigned char* row, int i) {
        return __uint_as_float(load_weights2(row + 2 * (size_t)i) << 16);
    }
};
