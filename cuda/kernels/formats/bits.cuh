// What several formats share: bits spread over bytes, and the packed scales of Q4_K and Q5_K.
#pragma once

// `count` may be any number; only its low five bits count.
static __device__ __forceinline__ unsigned rotate_left(unsigned x, int count) {
  return x << (count & 31) | x >> (-count & 31);
}

static __device__ __forceinline__ float low_half(unsigned pair) { return f16_to_f32((unsigned short)pair); }
static __device__ __forceinline__ float high_half(unsigned pair) { return f16_to_f32((unsigned short)(pair >> 16)); }

// One eight of a Q4_K or Q5_K block: scale and minimum of 32 weights.
struct ScaleMin {
  float d, m;
};

// Scale and minimum of sub-block i (0..7) from the first 16 bytes of the block: d, dmin (f16), then twelve
// bytes. Bytes 0-3 hold scales 0-3 and bytes 4-7 minimums 0-3 in their low six bits; byte 8+j holds the low
// nibbles of scale 4+j and minimum 4+j, whose upper two bits fill up bytes j and 4+j.
static __device__ __forceinline__ ScaleMin scale_min(uint4 header, int i) {
  int byte = 8 * (i & 3), upper = i >> 2;
  unsigned low_scale = (upper ? header.w : header.y) >> byte;
  unsigned low_min = (upper ? header.w : header.z) >> (byte + 4 * upper);
  unsigned scale = (low_scale & 15) | (header.y >> (byte + 2 * upper) & 48);
  unsigned min = (low_min & 15) | (header.z >> (byte + 2 * upper) & 48);
  return {low_half(header.x) * (float)scale, high_half(header.x) * (float)min};
}
