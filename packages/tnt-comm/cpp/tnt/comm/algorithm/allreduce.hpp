#pragma once

#include <vector>

#include "tnt/comm/algorithm/windowed_operation.hpp"
#include "tnt/comm/base/partition.hpp"
#include "tnt/comm/kernel/tree_reduce.hpp"

namespace tnt::comm {

/// Allreduce of private arrays through the windows, large messages.
///
/// Per step a *piece* of the arrays as large as a window. Every rank copies
/// into its window what others will reduce (all but its own slice), reduces
/// its slice straight out of its own array and the others' windows, and copies
/// the other slices of the result from the ranks that reduced them.
///
/// Steps: ceil(bytes / window), two rounds each. Memory traffic per rank and
/// byte of the message: (n-1)/n copied in, n/n read and 1/n written by the
/// reduction, 1 copied out.
class SlicedAllreduce final : public WindowedOperation {
 public:
  /// `out` may be `in`; both stay untouched by others until completion.
  SlicedAllreduce(std::shared_ptr<Health> health, double stall_report_s,
                  std::shared_ptr<ChannelState> state, const Descriptor& descriptor, const void* in,
                  void* out);

 protected:
  void copy_in(std::uint64_t index, std::byte* window) override;
  void reduce(std::uint64_t index) override;
  void copy_out(std::uint64_t index) override;

 private:
  Range piece(std::uint64_t index) const;
  Range slice(std::uint64_t index, int member) const;  // elements, relative to the piece

  const std::byte* in_;
  std::byte* out_;
  std::size_t stride_;
  std::vector<const std::byte*> sources_;
  TreeReducer reducer_;
};

/// Allreduce of private arrays, small messages: every rank copies its array
/// into its window and reduces all windows for itself.
///
/// One step, one round; n times the message is read.
class DirectAllreduce final : public WindowedOperation {
 public:
  DirectAllreduce(std::shared_ptr<Health> health, double stall_report_s,
                  std::shared_ptr<ChannelState> state, const Descriptor& descriptor, const void* in,
                  void* out);

 protected:
  void copy_in(std::uint64_t index, std::byte* window) override;
  void copy_out(std::uint64_t index) override;

 private:
  const std::byte* in_;
  std::byte* out_;
  std::vector<const std::byte*> sources_;
  TreeReducer reducer_;
};

}  // namespace tnt::comm
