#include "tnt/comm/communicator/segment_set.hpp"

#include <utility>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/communicator/group.hpp"

namespace tnt::comm {

SegmentSet::SegmentSet(Group& group, std::string key, std::string purpose,
                       std::function<void()> look_around)
    : group_(group),
      key_(std::move(key)),
      purpose_(std::move(purpose)),
      look_around_(std::move(look_around)) {}

std::shared_ptr<Segment> SegmentSet::create(const MemoryNeeds& needs, Senders senders) {
  return create_of(group_.ranks(), "", needs, senders);
}

std::shared_ptr<Segment> SegmentSet::create_on_host(const MemoryNeeds& needs) {
  const HostLayout& hosts = group_.hosts();
  const int host = hosts.host_of(group_.rank());
  std::vector<int> ranks;
  for (int index = 0; index < hosts.members_per_host; ++index) {
    ranks.push_back(group_.ranks()[static_cast<std::size_t>(hosts.member_at(host, index))]);
  }
  return create_of(std::move(ranks), text("-host-", host), needs, Senders::all);
}

std::shared_ptr<Segment> SegmentSet::create_between_hosts(const MemoryNeeds& needs,
                                                          Senders senders) {
  const HostLayout& hosts = group_.hosts();
  const int index = hosts.local_index_of(group_.rank());
  std::vector<int> ranks;
  for (int host = 0; host < hosts.num_hosts; ++host) {
    ranks.push_back(group_.ranks()[static_cast<std::size_t>(hosts.member_at(host, index))]);
  }
  return create_of(std::move(ranks), text("-place-", index), needs, senders);
}

std::shared_ptr<Segment> SegmentSet::create_of(std::vector<int> ranks, const std::string& suffix,
                                               const MemoryNeeds& needs, Senders senders) {
  SegmentRequest request;
  request.key = text(key_, "-", num_segments_++, suffix);
  request.purpose = purpose_;
  request.members = std::move(ranks);
  request.num_bytes = needs.num_bytes;
  request.num_notifications = needs.num_notifications;
  request.senders = senders;
  request.look_around = look_around_;
  return group_.transport().create_segment(request, Deadline(group_.timeout_s()));
}

}  // namespace tnt::comm
