#include "tnt/comm/transport/rma/gpi2/segment_creation.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "tnt/comm/base/detachable_call.hpp"
#include "tnt/comm/base/error.hpp"
#include "tnt/comm/base/text.hpp"

namespace tnt::comm {
namespace {

/// One creation in progress, on this rank.
class Creation {
 public:
  Creation(std::shared_ptr<Gpi2Core> core, const SegmentRequest& request, const Deadline& deadline)
      : core_(std::move(core)), request_(request), deadline_(deadline) {
    terms_.num_bytes = static_cast<std::int64_t>(request.num_bytes);
    terms_.num_notifications = static_cast<std::int64_t>(request.num_notifications);
    terms_.num_members = static_cast<std::int64_t>(request.members.size());
    others_ = request.members;
    std::erase(others_, core_->rank());
  }

  std::unique_ptr<Segment> run() {
    try {
      return create();
    } catch (...) {
      give_up();
      throw;
    }
  }

 private:
  std::unique_ptr<Segment> create() {
    require_enough_notifications();
    meet();
    Gpi2Segment::Part part = allocate();
    introduce(part.own_id);
    tell_all(ready_message(request_.key, part.own_id));
    part.ids = gather_ids(part.own_id);
    const auto self = std::find(request_.members.begin(), request_.members.end(), core_->rank());
    return std::make_unique<Gpi2Segment>(
        core_, request_, static_cast<int>(self - request_.members.begin()), std::move(part));
  }

  // Members that have come further may write into the part until they know.
  void give_up() {
    core_->retirement().add({request_.key, own_id_, std::nullopt, request_.members});
  }

  void require_enough_notifications() const;
  void meet();
  Gpi2Segment::Part allocate();
  void introduce(SegmentId id);
  std::vector<SegmentId> gather_ids(SegmentId own_id);
  void tell_all(const ControlMessage& message);

  void wait_for_members(const std::function<bool(int)>& is_missing, const std::string& what) {
    core_->wait_for(others_, is_missing, what, deadline_, request_.look_around);
  }

  std::shared_ptr<Gpi2Core> core_;
  const SegmentRequest& request_;
  const Deadline& deadline_;
  SegmentTerms terms_;
  std::vector<int> others_;
  std::optional<SegmentId> own_id_;  // when memory is allocated
};

void Creation::require_enough_notifications() const {
  const std::size_t needed = request_.num_counters();
  const std::size_t available = core_->gaspi().num_notifications();
  if (needed <= available) return;
  const std::string of_each = request_.senders == Senders::one
                                  ? ""
                                  : text(" (", request_.num_notifications, " for each of ",
                                         request_.members.size(), " ranks)");
  throw Error(ErrorKind::comm,
              text("rank ", core_->rank(), ": ", request_.title(), " needs ", needed,
                   " notifications", of_each, ", but GPI-2 has ", available,
                   " in a segment. Use fewer, larger buckets (TNT_FUSION_THRESHOLD_KB)."));
}

void Creation::tell_all(const ControlMessage& message) {
  for (const int rank : others_) core_->mailbox().send(rank, message);
}

void Creation::meet() {
  tell_all(creating_message(request_.key, terms_));
  Rendezvous& rendezvous = core_->rendezvous();
  wait_for_members([&](int rank) { return !rendezvous.terms_of(request_.key, rank); },
                   text("create ", request_.title(), " together"));
  for (const int rank : others_) {
    if (rendezvous.terms_of(request_.key, rank) == terms_) continue;
    throw Error(ErrorKind::mismatch,
                text("rank ", core_->rank(), " creates ", request_.title(), " with ",
                     terms_.num_bytes, " bytes and ", terms_.num_notifications,
                     " notifications among ", terms_.num_members, " ranks, rank ", rank,
                     " with other numbers: the ranks do not create the same object."));
  }
}

Gpi2Segment::Part Creation::allocate() {
  const std::optional<SegmentId> id = core_->segment_ids().take();
  if (!id) {
    throw Error(ErrorKind::comm,
                text("rank ", core_->rank(), ": ", request_.title(), " would be segment number ",
                     Gaspi::kNumSegments + 1, ", but GPI-2 has ", Gaspi::kNumSegments,
                     ". Close reducers and gatherers that are not used any more, or drop groups."));
  }
  try {
    constexpr std::size_t kNeverEmpty = 64;
    std::byte* memory = core_->gaspi().allocate(*id, request_.num_bytes + kNeverEmpty);
    own_id_ = id;
    return {*id, {}, memory};
  } catch (...) {
    core_->segment_ids().give_back(*id);
    throw;
  }
}

void Creation::introduce(SegmentId id) {
  // A call to a rank that is stopped does not return.
  DetachableCall call("tnt-comm-intro", [id, core = core_, others = others_, deadline = deadline_] {
    for (const int rank : others) core->gaspi().introduce(id, rank, deadline);
  });
  try {
    wait_for_members([&](int) { return !call.has_returned(); },
                     text("learn of ", request_.title()));
  } catch (...) {
    if (!call.has_returned()) own_id_.reset();  // it is in use for ever
    throw;
  }
  call.get();
}

std::vector<SegmentId> Creation::gather_ids(SegmentId own_id) {
  Rendezvous& rendezvous = core_->rendezvous();
  wait_for_members([&](int rank) { return !rendezvous.part_of(request_.key, rank); },
                   text("allocate ", request_.title()));
  std::vector<SegmentId> ids;
  for (const int rank : request_.members) {
    ids.push_back(rank == core_->rank() ? own_id : *rendezvous.part_of(request_.key, rank));
  }
  return ids;
}

}  // namespace

std::unique_ptr<Segment> create_gpi2_segment(const std::shared_ptr<Gpi2Core>& core,
                                             const SegmentRequest& request,
                                             const Deadline& deadline) {
  return Creation(core, request, deadline).run();
}

}  // namespace tnt::comm
