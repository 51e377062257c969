#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tnt/comm/base/partition.hpp"
#include "tnt/comm/collective/staged_operation.hpp"

namespace tnt::comm {

/// A collective in which the array of a rank consists of a part for each member.
///
/// A slot is cut into n sub-slots. Per block a rank puts the next sub-slot full
/// of *each* part into the sub-slot of the member it belongs to, so that all
/// members have something to take in every block.
///
/// Blocks: ceil(longest part / sub-slot), one round each.
class PartsOperation : public StagedOperation {
 public:
  /// `parts`: the elements for each member, in member order, alike on all.
  PartsOperation(std::shared_ptr<AbortState> abort_state, std::shared_ptr<ChannelState> state,
                 const Descriptor& descriptor, std::vector<Range> parts, const void* in);

 protected:
  void copy_in(std::uint64_t index, std::byte* slot) override;

  /// The elements of this rank's part that the block brings, counted from the part's begin.
  Range own_block(std::uint64_t index) const;
  /// What the member has put there for this rank.
  const std::byte* for_this_rank(int member, std::uint64_t index) const;
  std::size_t own_length() const { return parts_[own_index()].size(); }
  std::size_t element_bytes() const { return element_bytes_; }

 private:
  std::size_t own_index() const { return static_cast<std::size_t>(channel().rank()); }
  Range block(std::uint64_t index, std::size_t member) const;  // elements of the array

  std::vector<Range> parts_;
  const std::byte* in_;
  std::size_t element_bytes_;
  std::size_t sub_slot_;  // elements
};

}  // namespace tnt::comm
