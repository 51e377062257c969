#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "tnt/comm/collective/staging_pipeline.hpp"
#include "tnt/comm/kernel/tree_reduce.hpp"

namespace tnt::comm {

/// The latency path of small allreduces: what OneShotAllreduce does, by a caller
/// who holds the stream, without an operation object and without allocating
/// anything. One object serves all calls of a channel, one after the other.
///
/// If the peers do not come soon, or call something else, a OneShotAllreduce
/// takes the call over where it is; see StagedOperation::take_over().
class QuickAllreduce {
 public:
  explicit QuickAllreduce(std::shared_ptr<StagedStream> stream);

  /// Whether messages of this size are OneShotAllreduce's.
  bool takes(std::size_t num_bytes) const { return num_bytes <= limit_bytes_; }

  /// Copies the input into the slot and posts it. Wakes nobody.
  void begin(const void* in, void* out, const Descriptor& descriptor);

  /// True when all have posted the same call, and the result is in `out`.
  bool try_finish();

  /// To be called at the end, or if there is none soon: for ranks that sleep.
  void wake_others() { stream_->channel.wake_others(); }

  /// The call, with its number.
  const Descriptor& descriptor() const { return descriptor_; }

 private:
  std::shared_ptr<StagedStream> stream_;
  std::size_t limit_bytes_;
  Descriptor descriptor_;
  const std::byte* in_ = nullptr;
  std::byte* out_ = nullptr;
  int num_arrived_ = 0;  // the members up to this one have posted
  std::vector<const std::byte*> sources_;
  TreeReducer reducer_;
};

}  // namespace tnt::comm
