// f16 and f32 by integer arithmetic: exact, and free of the slow path that denormal floats take.
#pragma once
#include <stdint.h>
#include <string.h>

namespace emu {

inline float half_to_float(uint16_t h) {
    const uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16;
    const uint32_t exponent = h >> 10 & 31;
    uint32_t fraction = h & 1023, bits;
    if (exponent == 31) {
        bits = sign | 0x7f800000 | fraction << 13;
    } else if (exponent) {
        bits = sign | (exponent + 112) << 23 | fraction << 13;
    } else if (fraction) {
        const int shift = __builtin_clz(fraction) - 21;
        fraction = fraction << shift & 1023;
        bits = sign | static_cast<uint32_t>(113 - shift) << 23 | fraction << 13;
    } else {
        bits = sign;
    }
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

inline uint16_t float_to_half(float f) {
    uint32_t bits;
    memcpy(&bits, &f, 4);
    const uint16_t sign = bits >> 16 & 0x8000;
    const uint32_t size = bits & 0x7fffffff;
    if (size > 0x7f800000) return 0x7fff;
    if (size >= 0x477ff000) return sign | 0x7c00; // rounds to 65536 or more
    if (size < 0x33000001) return sign;           // at most half of the least denormal
    if (size < 0x38800000) {
        const uint32_t shift = 126 - (size >> 23), fraction = (size & 0x7fffff) | 0x800000;
        const uint32_t half = fraction >> shift, rest = fraction & ((1u << shift) - 1), middle = 1u << (shift - 1);
        return sign | (half + (rest > middle || (rest == middle && (half & 1))));
    }
    return sign | ((size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13);
}

} // namespace emu
