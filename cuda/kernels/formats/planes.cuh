// What records of several formats are made of: planes that a warp loads whole, and the rows of the file that they are packed from.
//
// Loads take the place of the lane's own 16 bytes, p = plane + 16·lane: one pointer then serves all planes of a record, by constants
// and by what the planes of other widths lie apart.
//
// Lane 4g + t owns rows g and g + 8 of the sixteen, and octet t of each block of 32 of them: the quads of elements 4t..4t+3
// and 16+4t..16+4t+3. "Row i" is row g + 8i here. A plane of values has 128 columns: blocks 0..3.
#pragma once
#include "formats/bits.cuh"

// Word i of four. Where i is known to the compiler, a register.
DEVICE unsigned word(uint4 v, int i) { return i < 2 ? (i ? v.y : v.x) : (i == 2 ? v.z : v.w); }
DEVICE int unsigned_byte(unsigned bytes, int i) { return (int)permute_bytes(bytes, 0, 0x4440 | i); }
DEVICE int signed_byte(unsigned bytes, int i) { return (int)(signed char)(bytes >> 8 * i); }

// From the lane's 16 bytes to those of its row g, in a plane of `bytes` per row.
DEVICE int of_row(int l, int bytes = 16) { return bytes * (l / 4) - 16 * l; }

// The file's codes of this lane in 128 columns: octet [row i][block j].
struct Codes {
    Quads q[2][4];
};

// Sixteen rows as they are in the file, as the lane that packs a record sees them.
struct FileRows {
    const unsigned char* row[2];  // null past the last row
    int first, blocks;            // the record's first block of 32, and how many a row has
    __device__ __forceinline__ int has(int i, int block) const { return row[i] && first + block < blocks; }
};

// 128 columns from block `begin` of the record on; zeros where the matrix ends.
template <class F>
DEVICE Codes codes(const FileRows& from, int begin) {
    Codes all;
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 4; j++) {
            Quads none = {0, 0};
            all.q[i][j] = from.has(i, begin + j) ? F::codes(from.row[i], from.first + begin + j, lane() % 4) : none;
        }
    }
    return all;
}

// Four bits of each code: word j of row i is block j, the first quad in the low halves of its bytes.
struct Nibbles {
    static constexpr int BYTES = 1024;
    uint4 row[2];
    DEVICE Nibbles load(const unsigned char* p) { return {{load_weights16(p), load_weights16(p + 512)}}; }
    __device__ __forceinline__ unsigned low(int i, int j) const { return word(row[i], j) & 0x0f0f0f0f; }
    __device__ __forceinline__ unsigned high(int i, int j) const { return word(row[i], j) >> 4 & 0x0f0f0f0f; }
    // FLIP: bits of a byte that are stored inverted.
    template <unsigned FLIP = 0>
    DEVICE void store(unsigned char* p, const Codes& from) {
        for (int i = 0; i < 2; i++) {
            unsigned w[4];
            for (int j = 0; j < 4; j++) {
                w[j] = ((from.q[i][j].low & 0x0f0f0f0f) | (from.q[i][j].high & 0x0f0f0f0f) << 4) ^ FLIP * 0x01010101u;
            }
            *(uint4*)(p + 512 * i + 16 * lane()) = {w[0], w[1], w[2], w[3]};
        }
    }
};

// One bit of each code: bit 2j + half of a byte of word i.
struct Bits {
    static constexpr int BYTES = 256;
    uint2 row;
    DEVICE Bits load(const unsigned char* p, int l) { return {load_weights8(p - 8 * l)}; }
    // The bits of a quad at bit AT of its bytes, nothing else.
    template <int AT>
    __device__ __forceinline__ unsigned quad(int i, int j, int half) const {
        unsigned w = i ? row.y : row.x;
        int shift = AT - 2 * j - half;
        return (shift < 0 ? w >> -shift : w << shift) & 0x01010101u << AT;
    }
    // BIT: which bit of the code. FLIP: 1 where it is stored inverted.
    template <int BIT, unsigned FLIP = 0>
    DEVICE void store(unsigned char* p, const Codes& from) {
        unsigned w[2] = {0, 0};
        for (int i = 0; i < 2; i++) {
            for (int j = 0; j < 4; j++) {
                w[i] |= (from.q[i][j].low >> BIT & 0x01010101) << 2 * j | (from.q[i][j].high >> BIT & 0x01010101) << (2 * j + 1);
            }
        }
        *(uint2*)(p + 8 * lane()) = {w[0] ^ FLIP * 0xffffffffu, w[1] ^ FLIP * 0xffffffffu};
    }
};

// Two bits of each code: word 2i + j/2, bits 4·(j%2) + 2·half of a byte.
struct Pairs {
    static constexpr int BYTES = 512;
    uint4 rows;
    DEVICE Pairs load(const unsigned char* p) { return {load_weights16(p)}; }
    // The two bits of a quad at bits AT and AT + 1 of its bytes, nothing else.
    template <int AT>
    __device__ __forceinline__ unsigned quad(int i, int j, int half) const {
        unsigned w = word(rows, 2 * i + j / 2);
        int shift = AT - 4 * (j % 2) - 2 * half;
        return (shift < 0 ? w >> -shift : w << shift) & 0x03030303u << AT;
    }
    // BIT: the lower one of the code's two bits. FLIP: those of the two that are stored inverted.
    template <int BIT, unsigned FLIP = 0>
    DEVICE void store(unsigned char* p, const Codes& from) {
        unsigned w[4] = {0, 0, 0, 0};
        for (int i = 0; i < 2; i++) {
            for (int j = 0; j < 4; j++) {
                unsigned both = (from.q[i][j].low >> BIT & 0x03030303) | (from.q[i][j].high >> BIT & 0x03030303) << 2;
                w[2 * i + j / 2] |= (both ^ FLIP * 0x05050505u) << 4 * (j % 2);
            }
        }
        *(uint4*)(p + 16 * lane()) = {w[0], w[1], w[2], w[3]};
    }
};

// An f16 for each row and block of 32: {4 of row g, 4 of row g + 8}, 16 bytes per g.
struct Halves {
    static constexpr int BYTES = 128;
    uint4 rows;
    DEVICE Halves load(const unsigned char* p, int l) { return {load_weights16(p + of_row(l))}; }
    __device__ __forceinline__ float at(int i, int j) const {
        unsigned w = word(rows, 2 * i + j / 2);
        return j % 2 ? high_half(w) : low_half(w);
    }
    DEVICE void store(unsigned char* p, int i, int j, unsigned half) {
        ((unsigned short*)p)[8 * (lane() / 4) + 4 * i + j] = (unsigned short)half;
    }
};

// The plane of the f16 at a byte of each block of 32 of the file.
template <class F>
DEVICE void pack_halves(unsigned char* p, const FileRows& from, int byte = 0) {
    if (lane() % 4) return;
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 4; j++) {
            unsigned half = from.has(i, j) ? load_weights2(from.row[i] + (from.first + j) * F::BYTES + byte) : 0;
            Halves::store(p, i, j, half);
        }
    }
}

// A byte for each row and half block: {8 of row g, 8 of row g + 8}, 16 bytes per g.
struct HalfBlockBytes {
    static constexpr int BYTES = 128;
    uint4 rows;
    DEVICE HalfBlockBytes load(const unsigned char* p, int l) { return {load_weights16(p + of_row(l))}; }
    __device__ __forceinline__ unsigned at(int i, int j, int half) const {
        return (unsigned)unsigned_byte(word(rows, 2 * i + j / 2), 2 * (j % 2) + half);
    }
    __device__ __forceinline__ int signed_at(int i, int j, int half) const {
        return signed_byte(word(rows, 2 * i + j / 2), 2 * (j % 2) + half);
    }
    DEVICE void store(unsigned char* p, int i, int j, int half, unsigned byte) {
        p[16 * (lane() / 4) + 8 * i + 2 * j + half] = (unsigned char)byte;
    }
};

// An f16 for each row: {row g, row g + 8}, 4 bytes per g.
struct RowHalves {
    static constexpr int BYTES = 32;
    unsigned rows;
    DEVICE RowHalves load(const unsigned char* p, int l) { return {load_weights4(p + of_row(l, 4))}; }
    __device__ __forceinline__ float at(int i) const { return i ? high_half(rows) : low_half(rows); }
    DEVICE void store(unsigned char* p, int i, unsigned half) {
        ((unsigned short*)p)[2 * (lane() / 4) + i] = (unsigned short)half;
    }
};
