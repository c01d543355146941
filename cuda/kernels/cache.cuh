// The KV cache of one layer: pages of 64 tokens, found through a table per sequence.
#pragma once

enum { PAGE = 64, CACHE_BLOCK = 32 };
enum CacheType { CACHE_F16 = 0, CACHE_Q8_0 = 1 };

struct Cache {
    void* k;                  // f16 or int8 [page][head_kv][64][head_dim]
    void* v;                  // the same
    unsigned short* k_scale;  // q8_0: f16 [page][head_kv][64][ceil(head_dim/32)]
    unsigned short* v_scale;  // the same
    const int* table;         // [seq][pages]: page number of position p is entry (p / 64) % pages
    int pages;
    int type;
};

// Number of the slot of a position, counted in tokens of a head from the start of the pool.
DEVICE size_t cache_slot(const Cache& c, int seq, int position, int head, int heads) {
    int n = position / PAGE;
    if (n >= c.pages) n %= c.pages;  // where pages are used again, else divisions are what a short context waits for
    int page = c.table[(size_t)seq * c.pages + n];
    return ((size_t)page * heads + head) * PAGE + position % PAGE;
}
