#pragma once

#include "tnt/comm/device/driver_api.hpp"

namespace tnt::comm::tests::fake_cuda {

/// A call of a function of the driver: what it gives at once, if it gives an error.
class Call {
 public:
  explicit Call(const char* function);
  ~Call();
  Call(Call&&) = delete;

  /// Whether it gives an error at once.
  bool is_refused();
  /// The same of a function that needs a context of its thread.
  bool has_no_context();

  cuda::Result result() const { return result_; }

 private:
  cuda::Result result_ = cuda::kSuccess;
};

/// Returns when all calls have.
void wait_for_calls();

}  // namespace tnt::comm::tests::fake_cuda
