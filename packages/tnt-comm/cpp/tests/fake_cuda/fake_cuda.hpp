#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "tnt/comm/device/driver_library.hpp"

// A CUDA driver for tests, on hosts without GPUs. It behaves as the real one where a program could
// notice, and is stricter where the real one would forgive or crash later:
//
// - Addresses of GPUs are none of the host. What is copied or given to a kernel must lie in one
//   allocation.
// - A stream is a thread that does its work in order, after delays. Threads are ordered by events
//   and queries of the program only, so that ThreadSanitizer reports a forgotten one.
// - Copies to and from memory of the host that is not registered are done in the call, behind the
//   work of the stream. A range of which only a part is registered is refused.
// - Kernels are those of kernels.cu, by name, with the same arithmetic.
//
// Unlike the real one, it opens memory by its handle in the process that owns it as well, where
// ranks are threads. Built as libcuda.so.1, it takes its settings from variables:
// FAKE_CUDA_DEVICES (number), FAKE_CUDA_FIRST (how many are before them that the process does not
// see), FAKE_CUDA_PEERS ("01,10": who reaches whom), FAKE_CUDA_DELAY_US (the longest),
// FAKE_CUDA_SEED, FAKE_CUDA_VERSION, FAKE_CUDA_FAIL ("cuMemAlloc_v2:3:2": its third call gives 2),
// FAKE_CUDA_HANG_AT (the number of the piece of work at which all streams stop).

namespace tnt::comm::tests {

struct FakeCudaSettings {
  int num_devices = 1;
  std::vector<std::vector<bool>> can_reach = {};  ///< [from][to]; empty: all do
  std::chrono::microseconds longest_delay{0};
  unsigned seed = 1;
  int version = 13000;
  int capability = 90;            ///< to compute, times ten
  double release_limit_s = 10.0;  ///< see cuda::Driver
};

/// While it lives, this is the driver that the library finds. One at a time.
class FakeCuda {
 public:
  explicit FakeCuda(const FakeCudaSettings& settings = {});
  /// Ends all streams, whatever they are at.
  ~FakeCuda();
  FakeCuda(FakeCuda&&) = delete;

  /// What the library is given. Before the first use of it, functions can be taken away.
  cuda::Functions& functions() { return driver_.functions; }

  /// The `number`-th call from now on of the driver's function of that name gives `result`.
  void fail(const std::string& function, int number, cuda::Result result);

  /// No stream does anything more, until they are let go.
  void hang();
  void let_go();

  /// All streams drop their work, and all functions but those that release give this error.
  void break_devices(cuda::Result result);

  /// Allocations, streams, events and registrations that nobody has released.
  std::size_t num_left() const;

  /// What the stand-in itself has for streams and events, those that are released included.
  std::size_t num_kept() const;

  /// Such as a program's own, in the primary context of a device that is in use.
  void* make_stream(int ordinal = 0);

 private:
  cuda::Driver driver_;
};

}  // namespace tnt::comm::tests
