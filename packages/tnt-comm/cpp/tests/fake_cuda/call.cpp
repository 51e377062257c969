#include "fake_cuda/call.hpp"

#include <atomic>
#include <mutex>
#include <thread>

#include "fake_cuda/objects.hpp"

namespace tnt::comm::tests::fake_cuda {
namespace {

// Calls that have not returned. It orders nobody but who waits for all.
std::atomic<int> num_calls{0};

cuda::Result failure_of(const char* function) {
  Objects& all = objects();
  const std::lock_guard lock(all.mutex);
  const auto found = all.failures.find(function);
  if (found == all.failures.end() || --found->second.number != 0) return cuda::kSuccess;
  return found->second.result;
}

}  // namespace

Call::Call(const char* function) {
  num_calls.fetch_add(1, std::memory_order_relaxed);
  if (objects().has_failures.load(std::memory_order_relaxed)) result_ = failure_of(function);
  if (result_ == cuda::kSuccess) result_ = course().error.load(std::memory_order_relaxed);
}

Call::~Call() {
  num_calls.fetch_sub(1, std::memory_order_release);
}

bool Call::is_refused() {
  if (result_ == cuda::kSuccess && !objects().is_initialized) result_ = cuda::kNotInitialized;
  return result_ != cuda::kSuccess;
}

bool Call::has_no_context() {
  if (is_refused()) return true;
  if (current_context() == nullptr) result_ = cuda::kInvalidContext;
  return result_ != cuda::kSuccess;
}

void wait_for_calls() {
  while (num_calls.load(std::memory_order_acquire) != 0) std::this_thread::yield();
}

}  // namespace tnt::comm::tests::fake_cuda
