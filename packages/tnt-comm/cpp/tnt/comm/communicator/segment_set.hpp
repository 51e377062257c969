#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tnt/comm/collective/collectives.hpp"
#include "tnt/comm/transport/segment.hpp"

namespace tnt::comm {

class Group;

/// The segments of one object, which the members of a group create together, in the
/// same order. All functions are collective among those who get the segment, and block.
class SegmentSet {
 public:
  /// `key` is the same on all members and unique in the job, `purpose` is for messages,
  /// `look_around` as in a SegmentRequest.
  SegmentSet(Group& group, std::string key, std::string purpose, std::function<void()> look_around);

  /// Memory of all members.
  std::shared_ptr<Segment> create(const MemoryNeeds& needs, Senders senders = Senders::all);

  /// With two levels, memory among the members on this host, which can read it,
  /// or among those with this rank's place on all hosts.
  std::shared_ptr<Segment> create_on_host(const MemoryNeeds& needs);
  std::shared_ptr<Segment> create_between_hosts(const MemoryNeeds& needs,
                                                Senders senders = Senders::all);

 private:
  std::shared_ptr<Segment> create_of(std::vector<int> ranks, const std::string& suffix,
                                     const MemoryNeeds& needs, Senders senders);

  Group& group_;
  std::string key_;
  std::string purpose_;
  std::function<void()> look_around_;
  int num_segments_ = 0;
};

}  // namespace tnt::comm
