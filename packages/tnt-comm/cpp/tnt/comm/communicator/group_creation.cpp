#include <algorithm>
#include <functional>
#include <iomanip>
#include <sstream>
#include <utility>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/communicator/group.hpp"
#include "tnt/comm/communicator/segment_set.hpp"
#include "tnt/comm/communicator/streams.hpp"
#include "tnt/comm/communicator/wait.hpp"

namespace tnt::comm {
namespace {

constexpr auto kCreationLookInterval = std::chrono::milliseconds(100);

int index_in(const std::vector<int>& ranks, int rank) {
  return static_cast<int>(std::lower_bound(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

HostLayout hosts_of(const Transport& transport, const std::vector<int>& ranks) {
  std::vector<int> nodes;
  for (const int rank : ranks) nodes.push_back(transport.node_of(rank));
  return host_layout(nodes);
}

std::string describe_ranks(const std::vector<int>& ranks) {
  std::string result = "ranks";
  for (std::size_t i = 0; i < ranks.size(); ++i) result += text(i == 0 ? " " : ", ", ranks[i]);
  return result;
}

void require_valid_ranks(const std::vector<int>& ranks, const Environment& environment) {
  const bool is_ascending =
      std::adjacent_find(ranks.begin(), ranks.end(), std::greater_equal<>()) == ranks.end();
  const bool is_inside =
      !ranks.empty() && is_ascending && ranks.front() >= 0 && ranks.back() < environment.size;
  if (!is_inside) {
    throw UsageError(text("`ranks` must be ascending, different ranks in [0, ", environment.size,
                          "). Received: ", describe_ranks(ranks), "."));
  }
  if (!std::binary_search(ranks.begin(), ranks.end(), environment.rank)) {
    throw UsageError(text("rank ", environment.rank, " creates a group of ", describe_ranks(ranks),
                          " and is not one of them. Only members create a group."));
  }
}

// Names the group's memory.
std::string group_key(const CreationId& id) {
  std::ostringstream key;
  key << "group-" << std::hex << std::setw(16) << std::setfill('0') << id.members << std::dec << "-"
      << id.use;
  return key.str();
}

}  // namespace

/// Watches the creation of a group, as long as it lives, while this rank waits for the
/// other members, and tells them if this rank fails.
class CreationWatch {
 public:
  /// `creations` may be null: nothing is watched then. `title` is the group's.
  CreationWatch(std::shared_ptr<Creations> creations, const CreationId& id, const Group& group,
                std::string title, const CallLabel& label);
  /// The creation has ended, well or not.
  ~CreationWatch();
  CreationWatch(const CreationWatch&) = delete;
  CreationWatch& operator=(const CreationWatch&) = delete;

  /// To be called several times per second, or more often. Throws the failure of
  /// another member. After a long wait: a mismatch error if another member waits for
  /// this rank in another call.
  void look();

  /// This rank gives the creation up, unless all have heard of another's failure.
  void fail(const Error& error);

 private:
  void require_same_group();

  std::shared_ptr<Creations> creations_;
  CreationId id_;
  const Group& group_;
  std::string title_;
  const CallLabel& label_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point next_look_ = start_;
  bool has_note_ = false;
  bool is_over_ = false;  // and all members know
};

CreationWatch::CreationWatch(std::shared_ptr<Creations> creations, const CreationId& id,
                             const Group& group, std::string title, const CallLabel& label)
    : creations_(std::move(creations)),
      id_(id),
      group_(group),
      title_(std::move(title)),
      label_(label) {
  if (creations_) creations_->begin(id_);
}

CreationWatch::~CreationWatch() {
  if (!creations_) return;
  try {
    creations_->withdraw(id_);
  } catch (const Error&) {
    // Nothing can be sent any more: who waits for this rank will see that itself.
  }
}

void CreationWatch::look() {
  if (!creations_) return;
  // At each look, for it comes just before the rank that is told as well ends.
  if (const auto reason = creations_->refusal()) {
    is_over_ = true;
    throw Error(ErrorKind::mismatch, *reason);
  }
  if (const auto error = creations_->failure_of_others(group_.ranks(), id_, title_)) {
    is_over_ = true;
    throw Error(*error);
  }
  const Clock::time_point now = Clock::now();
  if (now < next_look_) return;
  next_look_ = now + kCreationLookInterval;
  if (seconds_since(start_) < group_.stall_report_s()) return;
  if (!has_note_) title_ += note_of(label_);
  has_note_ = true;
  creations_->tell(group_.ranks(), id_, title_);
  require_same_group();
}

void CreationWatch::require_same_group() {
  for (const int member : group_.ranks()) {
    const auto notice = creations_->awaited_by(member);
    if (!notice) continue;
    const Error error(ErrorKind::mismatch,
                      text("rank ", member, " creates ", *notice,
                           ", while another member of it creates ", title_, kCreationRule));
    creations_->refuse(error.what());
    is_over_ = true;
    throw error;
  }
}

void CreationWatch::fail(const Error& error) {
  if (!creations_ || is_over_) return;
  try {
    creations_->fail(group_.ranks(), id_, error);
  } catch (const Error&) {
    // As above.
  }
}

std::shared_ptr<Group> Group::create(Runtime& runtime, std::vector<int> ranks,
                                     const std::string& name, const CallLabel& label) {
  auto group = std::make_shared<Group>(runtime, std::move(ranks));
  group->join(name, label);
  runtime.watch(group);
  return group;
}

std::shared_ptr<Group> Group::create(std::vector<int> ranks, const CallLabel& label) {
  Runtime& current = runtime();
  require_valid_ranks(ranks, current.environment());
  const std::string name = describe_ranks(ranks);
  return create(current, std::move(ranks), name, label);
}

std::shared_ptr<Group> Group::world() {
  return runtime().world();
}

Group::Group(Runtime& runtime, std::vector<int> ranks)
    : runtime_(runtime),
      ranks_(std::move(ranks)),
      rank_(index_in(ranks_, runtime.environment().rank)),
      id_(runtime.next_creation_of(ranks_)),
      key_(group_key(id_)),
      hosts_(hosts_of(runtime.transport(), ranks_)) {
  if (runtime.transport().is_readable_among(ranks_)) {
    topology_ = Topology::readable;
  } else {
    topology_ = hosts_.has_branches ? Topology::hierarchical : Topology::put_only;
  }
}

void Group::join(const std::string& name, const CallLabel& label) {
  const std::string title = text("group '", name, "'");
  const std::shared_ptr<Group>& world = runtime_.world();
  CreationWatch watch(world ? world->abort_state()->creations() : nullptr, id_, *this, title,
                      label);
  try {
    open(name, title, watch);
  } catch (...) {
    const Error error = Error::current();
    watch.fail(error);
    if (abort_state_) abort_state_->fail(error);  // the others may have the group
    runtime_.note_failed_creation(error.what());
    throw;
  }
}

void Group::open(const std::string& name, const std::string& title, CreationWatch& watch) {
  // The first group is the world, which has room for news of later ones.
  const std::shared_ptr<Group>& world = runtime_.world();
  const std::size_t creations_offset = AbortState::num_bytes(ranks_.size());
  const NotificationId creations_notification = AbortState::kNotification + 1;
  std::size_t offset = creations_offset;
  NotificationId notification = creations_notification;
  if (!world) {
    offset += Creations::num_bytes(ranks_.size());
    notification += Creations::kNumNotifications;
  }
  std::shared_ptr<Creations> creations = world ? world->abort_state()->creations() : nullptr;
  const std::size_t slot_bytes = slot_bytes_for(topology_);
  const MemoryNeeds needs = stream_needs(topology_, size(), slot_bytes);
  SegmentSet segments(*this, key_, title, [&watch] { watch.look(); });
  StreamMemory memory;
  memory.slot_bytes = slot_bytes;
  memory.offset = offset;
  memory.notification = notification;
  if (topology_ == Topology::hierarchical) create_levels(segments, hosts_, memory);
  // At last that of all members: none has it before all have made the others.
  segment_ = segments.create({offset + needs.num_bytes, notification + needs.num_notifications});
  memory.segment = segment_;
  if (!creations) {
    creations = std::make_shared<Creations>(segment_, creations_offset, creations_notification);
  }
  abort_state_ = std::make_shared<AbortState>(name, ranks_, segment_, runtime_.transport(),
                                              std::move(creations));
  stream_ = make_stream(*this, operation_context(), memory);
  warn_of_one_level();
  if (monitor()->timeline) {
    row_ = monitor()->timeline->add_row(OperationTrack::row(title));
  }
}

void Group::warn_of_one_level() const {
  if (topology_ != Topology::put_only || hosts_.objection.empty() || rank() != 0) return;
  log_warning(abort_state_->world_rank(),
              text("group '", name(), "' sends the data of every rank over the network: ",
                   hosts_.objection, " the ranks of a host would be summed before."));
}

std::unique_ptr<Collectives> Group::create_flat_stream(SegmentSet& segments,
                                                       std::size_t slot_bytes) {
  const MemoryNeeds needs = stream_needs(topology_, size(), slot_bytes);
  return make_flat_stream(topology_, operation_context(),
                          {.segment = segments.create(needs), .slot_bytes = slot_bytes});
}

std::pair<CreationId, std::string> Group::next_object() {
  const std::uint64_t number = num_objects_++;
  return {{.members = fingerprint_of(std::string_view(key_)), .use = number},
          text(key_, "-object-", number)};
}

}  // namespace tnt::comm
