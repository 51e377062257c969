// The one runtime of a process: made lazily, ended at exit, refused in forked
// children. It is never destroyed: threads of the program (TensorFlow's, say)
// may still be inside a call when the process ends.

#include <atomic>
#include <cstdlib>
#include <mutex>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/base/forked_child.hpp"
#include "tnt/comm/communicator/runtime.hpp"

namespace tnt::comm {
namespace {

std::atomic<Runtime*> instance{nullptr};
std::atomic<bool> was_finalized{false};
std::mutex creation_mutex;

Runtime& create() {
  const std::lock_guard lock(creation_mutex);
  if (Runtime* existing = instance.load()) return *existing;
  watch_forks();
  auto* created = new Runtime(world_environment());
  std::atexit(finalize);
  instance.store(created);
  return *created;
}

}  // namespace

Runtime& runtime() {
  refuse_forked_child();
  if (was_finalized.load()) {
    throw UsageError("tnt_comm.finalize() was called; tnt_comm cannot be used after it.");
  }
  Runtime* existing = instance.load(std::memory_order_acquire);
  return existing != nullptr ? *existing : create();
}

bool is_initialized() {
  return instance.load() != nullptr && !was_finalized.load() && !is_forked_child();
}

void finalize() {
  Runtime* existing = instance.load();
  if (existing == nullptr || is_forked_child()) return;
  was_finalized.store(true);
  existing->finish();
}

Timeline* process_timeline() {
  Runtime* existing = instance.load(std::memory_order_acquire);
  if (existing == nullptr || was_finalized.load(std::memory_order_relaxed)) return nullptr;
  if (is_forked_child()) return nullptr;
  return existing->monitor()->timeline.get();
}

Counters counters() {
  return runtime().monitor()->meter.counters();
}

const Environment& world_environment() {
  static const Environment environment = [] {
    Environment read = read_environment();
    parse_allreduce_algorithm(read.allreduce_algorithm);  // throws if there is none of this name
    return read;
  }();
  return environment;
}

}  // namespace tnt::comm
