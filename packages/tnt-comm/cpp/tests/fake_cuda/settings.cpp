#include "fake_cuda/settings.hpp"

#include <mutex>

#include "fake_cuda/call.hpp"
#include "fake_cuda/objects.hpp"

namespace tnt::comm::tests::fake_cuda {

void apply_number_of_devices(int num_devices, int first_device) {
  objects().num_devices = num_devices;
  objects().first_device = first_device;
  for (int i = 0; i < Objects::kMostDevices; ++i) {
    objects().contexts[static_cast<std::size_t>(i)].ordinal = i;
    apply_reach(i, ~0U);
  }
}

void apply_reach(int from, unsigned reachable) {
  objects().reachable[static_cast<std::size_t>(from)] = reachable;
}

void apply_version(int version) {
  objects().version = version;
}

void apply_seed(unsigned seed) {
  objects().seed = seed;
}

void apply_failure(const char* function, int number, cuda::Result result) {
  Objects& all = objects();
  const std::lock_guard lock(all.mutex);
  all.failures[function] = {number, result};
  all.has_failures = true;
}

void reset_driver() {
  Objects& all = objects();
  course().is_ending = true;
  wait_for_calls();
  for (DeviceContext& context : all.contexts) {
    context.streams.clear();
    context.gate.reset();
    context.num_retained = 0;
  }
  all.memory.clear();
  all.failures.clear();
  all.has_failures = false;
  all.is_initialized = false;
  all.events.clear();
  all.marks.clear();
  all.modules.clear();
  all.num_streams = 0;
  all.num_streams_made = 0;
  Course& at_first = course();
  at_first.is_hung = at_first.is_ending = false;
  at_first.error = 0;
  at_first.num_until_hung = -1;
  at_first.longest_delay_us = 0;
}

std::size_t num_objects_left() {
  Objects& all = objects();
  int num_open = all.num_streams;
  for (const DeviceContext& context : all.contexts) num_open += context.num_retained;
  const std::lock_guard lock(all.mutex);
  return all.memory.num_left() + all.events.size() + all.modules.size() +
         static_cast<std::size_t>(num_open);
}

std::size_t num_kept() {
  Objects& all = objects();
  std::size_t num_streams = 0;
  for (DeviceContext& context : all.contexts) {
    const std::lock_guard lock(context.mutex);
    num_streams += context.streams.size();
  }
  const std::lock_guard lock(all.mutex);
  return num_streams + all.marks.size();
}

}  // namespace tnt::comm::tests::fake_cuda
