#pragma once

#include <memory>
#include <vector>

#include "tnt/comm/algorithm/shared_blocks.hpp"
#include "tnt/comm/algorithm/sliced_pieces.hpp"
#include "tnt/comm/algorithm/windowed_operation.hpp"
#include "tnt/comm/kernel/tree_reduce.hpp"

namespace tnt::comm {

/// Allreduce of large messages, each rank reducing a part for all.
///
/// *Private arrays* go through the windows, see SlicedPieces. Steps:
/// ceil(bytes / (n rooms)), two rounds each.
///
/// *Arrays in shared blocks*, if those of all members are: every rank reduces
/// one slice of the whole message out of all arrays and writes it to all
/// arrays. One step; n/n read and n/n written, nothing copied.
///
/// Which of the two it is, all ranks see from what all say at the first step,
/// where a rank with shared arrays posts an empty window. If there are some
/// with private arrays as well, that step counts for nothing, and its piece is
/// done once more as the last one.
class SlicedAllreduce final : public WindowedOperation {
 public:
  /// `out` may be `in`; both stay untouched by others until completion, unless
  /// they lie in a shared block.
  SlicedAllreduce(std::shared_ptr<Health> health, std::shared_ptr<ChannelState> state,
                  const Descriptor& descriptor, const void* in, void* out,
                  std::shared_ptr<const SharedBlocks> blocks);

 protected:
  void on_match() override;
  void copy_in(std::uint64_t index, std::byte* window) override;
  bool reduce(std::uint64_t index) override;
  void copy_out(std::uint64_t index) override;

 private:
  struct Arrays {  // of one member, in a shared block
    const std::byte* in;
    std::byte* out;
    std::shared_ptr<Segment> in_segment;  // whoever drops a block after an error
    std::shared_ptr<Segment> out_segment;
  };

  bool is_void(std::uint64_t index) const { return is_mixed_ && index == 0; }
  std::uint64_t piece(std::uint64_t index) const { return index % pieces_.num_pieces(); }
  bool reduce_shared();  // true when this rank's slice is done
  Arrays arrays_of(int member) const;

  std::shared_ptr<const SharedBlocks> blocks_;
  SlicedPieces pieces_;
  bool is_mixed_ = false;
  std::vector<Arrays> arrays_;  // by member, if all are shared
  std::size_t num_reduced_ = 0;
  std::vector<const std::byte*> sources_;
};

/// Allreduce of small messages: every rank copies its array into its window
/// and reduces all windows for itself.
///
/// One step, one round; n times the message is read.
class DirectAllreduce final : public WindowedOperation {
 public:
  DirectAllreduce(std::shared_ptr<Health> health, std::shared_ptr<ChannelState> state,
                  const Descriptor& descriptor, const void* in, void* out);

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
