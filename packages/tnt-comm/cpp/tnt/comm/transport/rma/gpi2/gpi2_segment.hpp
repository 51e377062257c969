#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "tnt/comm/transport/rma/gpi2/gpi2_core.hpp"
#include "tnt/comm/transport/transport.hpp"

namespace tnt::comm {

/// One member's part of a segment, in the memory of a GASPI segment of this
/// rank. Others' parts cannot be read; they are written to.
///
/// All puts and notifications go through one queue, so that they arrive in
/// order. What is sent to a rank that is gone is dropped.
class Gpi2Segment final : public Segment {
 public:
  struct Part {
    SegmentId own_id = 0;
    std::vector<SegmentId> ids;  ///< of all members, each in its own numbering
    std::byte* memory = nullptr;
  };

  /// Made by create_gpi2_segment().
  Gpi2Segment(std::shared_ptr<Gpi2Core> core, const SegmentRequest& request, int member, Part part);
  ~Gpi2Segment() override;

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  std::byte* local() override { return part_.memory; }
  const std::byte* peer(int member) const override {
    return member == rank_ ? part_.memory : nullptr;
  }
  void put(int member, std::size_t to, std::size_t from, std::size_t num_bytes) override;
  bool has_room(int member, std::size_t num_messages) override;
  void notify(int member, NotificationId id, std::uint64_t value) override;
  std::uint64_t poll(int sender, NotificationId id) const override;
  void flush() override;

 private:
  using Counter = std::atomic<std::uint64_t>;

  int world_rank(int member) const { return members_[static_cast<std::size_t>(member)]; }
  std::size_t slot(int sender, NotificationId id) const;
  int queue();
  void wait_for_room(int member);

  std::shared_ptr<Gpi2Core> core_;
  std::string key_;
  std::string title_;
  std::vector<int> members_;  // world ranks
  int rank_;
  Senders senders_;
  std::size_t num_notifications_;
  Part part_;
  std::atomic<int> queue_;
  mutable std::vector<Counter> newest_;  // of each notification, by slot
};

}  // namespace tnt::comm
