// Names of places and threads, and what becomes of a signal inside a kernel: a launch error.
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include <mutex>

#include "block.h"
#include "machine.h"

namespace emu {

std::string where(Site site) {
    const char* name = strrchr(site.file, '/');
    return std::string(name ? name + 1 : site.file) + ":" + std::to_string(site.line);
}

static std::string index(const unsigned* i, const unsigned* n) {
    if (n[1] == 1 && n[2] == 1) return std::to_string(i[0]);
    return "(" + std::to_string(i[0]) + "," + std::to_string(i[1]) + "," + std::to_string(i[2]) + ")";
}

std::string who(const Thread& t) { return "block " + index(t.block, t.blocks) + " thread " + index(t.thread, t.threads); }

static struct sigaction previous[2];

static void on_fault(int signal, siginfo_t* info, void* context) {
    if (Block* block = running()) {
        const auto pc = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP];
        block->trapped(reinterpret_cast<uintptr_t>(info->si_addr), reinterpret_cast<void*>(pc));
    }
    const struct sigaction& p = previous[signal == SIGBUS];
    if (p.sa_flags & SA_SIGINFO) return p.sa_sigaction(signal, info, context);
    if (p.sa_handler != SIG_DFL && p.sa_handler != SIG_IGN) return p.sa_handler(signal);
    sigaction(signal, &p, nullptr); // the instruction runs again and the process ends as it would have
}

void watch_faults() {
    static std::once_flag once;
    std::call_once(once, [] {
        struct sigaction act = {};
        act.sa_sigaction = on_fault;
        act.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
        sigaction(SIGSEGV, &act, &previous[0]);
        sigaction(SIGBUS, &act, &previous[1]);
    });
    // A fiber that overruns its stack faults too: the handler needs another one. Rust gives its threads one already.
    stack_t now;
    if (sigaltstack(nullptr, &now) == 0 && now.ss_flags & SS_DISABLE) {
        static thread_local char* own = new char[64 << 10];
        stack_t stack = {};
        stack.ss_sp = own;
        stack.ss_size = 64 << 10;
        sigaltstack(&stack, nullptr);
    }
}

} // namespace emu
