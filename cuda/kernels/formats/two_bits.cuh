// What Q2_0, TQ1_0 and TQ2_0 share: weights d·(q − 1) with q of two bits, of which ternary weights use three values.
// Record of 16 × 128: 1 − q as two bits with a sign, which is q with its lower bit inverted; −d as f16 {2 of row g, 2 of row g + 8}
// for 64 columns each, 8 bytes per g (2.25 bits per weight, as Q2_0 has; the files of the others have 1.69 and 2.06).
#pragma once
#include "formats/planes.cuh"

struct TwoBits : Quantized {
    static constexpr int COLUMNS = 128, RECORD = Pairs::BYTES + 64;
    static constexpr int SCALES = 1, MIN = 0, INTEGER = 0, POWER = 6, SCALED = 1;
    struct Held {
        Pairs q;
        uint2 d;
    };
    DEVICE Held load(const unsigned char* p, int l) { return {Pairs::load(p), load_weights8(p + Pairs::BYTES + of_row(l, 8))}; }
    DEVICE unsigned quad(const Held& h, int, int i, int j, int half) { return h.q.quad<6>(i, j, half); }
    DEVICE float scale(const Held& h, int i, int j) {
        const unsigned both = i ? h.d.y : h.d.x;
        return j / 2 ? high_half(both) : low_half(both);
    }
    // F has the f16 of a block of 32: half(row, block32).
    template <class F>
    DEVICE void pack_as(unsigned char* p, const FileRows& from) {
        Pairs::store<0, 1>(p, ::codes<F>(from, 0));
        if (lane() % 4) return;
        for (int i = 0; i < 2; i++) {
            for (int j = 0; j < 4; j += 2) {
                const unsigned d = from.has(i, j) ? F::half(from.row[i], from.first + j) ^ 0x8000 : 0;
                ((unsigned short*)(p + Pairs::BYTES))[4 * (lane() / 4) + 2 * i + j / 2] = (unsigned short)d;
            }
        }
    }
};
