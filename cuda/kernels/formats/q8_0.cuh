// Q8_0: 32 weights d·q in 34 bytes: f16 d, then 32 signed bytes. Blocks are 2-byte aligned.
#pragma once

struct Q8_0 {
  static constexpr int BLOCK = 32, BYTES = 34, SCALES = 1, MIN = 0, ZERO = 0, DENSE = 0;
  struct Octet {
    int q0, q1;
    float d0, d1, m0, m1;
  };
  static __device__ __forceinline__ Octet octet(const unsigned char* row, int block32, int t) {
    const unsigned char* block = row + block32 * BYTES;
    float d = f16_to_f32(load_weights2(block));
    return {(int)read_u32_at_2(block + 2 + 4 * t), (int)read_u32_at_2(block + 18 + 4 * t), d, d, 0, 0};
  }
};
