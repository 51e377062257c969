#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tnt/comm/base/partition.hpp"
#include "tnt/comm/collective/rma/rma_operation.hpp"

namespace tnt::comm {

/// Bytes of each member's share of both areas of a slot.
std::size_t parts_share(int size, const AreaSizes& available);

/// What `member` does to give every other its part: what goes to member k lies
/// at share * k in the work area, what comes from it lands at share * k of the
/// landing area. One round, n-1 messages, whose lengths are to be filled in.
Schedule parts_schedule(int member, int size, std::size_t share, const Areas& areas);

/// A collective in which the array of a rank consists of a part for each member.
///
/// Per block every rank sends the next share of *each* part to the rank that it
/// belongs to, so that all ranks have something to take in every block.
///
/// Blocks: ceil(longest part / share), n-1 messages per rank in each; every rank
/// sends all of the array but its own part, as it must.
class RmaPartsOperation : public RmaOperation {
 public:
  /// `parts`: the elements for each member, in member order, alike on all.
  RmaPartsOperation(std::shared_ptr<AbortState> abort_state,
                    std::shared_ptr<FingerprintCheck> fingerprint_check,
                    std::shared_ptr<RmaStream> stream, const Descriptor& descriptor,
                    const std::vector<Range>& parts, const void* in);

 protected:
  void copy_in(std::uint64_t index) override;
  const Schedule& schedule_of(std::uint64_t index) const override;

  /// Whether this rank has an array.
  virtual bool sends() const { return true; }

  Round& round_of(std::uint64_t index) { return schedules_[index % schedules_.size()].rounds[0]; }
  std::vector<Schedule>& schedules() { return schedules_; }
  std::size_t share() const { return share_; }
  /// The bytes of this rank's part that the block brings, counted from the part's begin.
  Range own_block(std::uint64_t index) const;
  std::size_t own_bytes() const { return parts_[own_index()].size(); }
  /// Copies what the block brings a member into the slot; returns how many bytes.
  std::size_t fill(std::uint64_t index, int member, std::size_t offset);

 private:
  std::size_t own_index() const { return static_cast<std::size_t>(channel().rank()); }
  Range block(std::uint64_t index, std::size_t member) const;  // bytes of the array

  std::vector<Range> parts_;  // bytes
  const std::byte* in_;
  std::size_t share_;
  std::vector<Schedule> schedules_;  // one per block under way
};

}  // namespace tnt::comm
