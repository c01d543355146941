#include "checker.h"

namespace emu {
size_t shadow_bytes(const Region&) { return 0; }
}
