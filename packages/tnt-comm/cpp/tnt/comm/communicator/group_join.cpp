#include <algorithm>
#include <functional>
#include <iomanip>
#include <ios>
#include <utility>

#include "tnt/comm/communicator/group.hpp"
#include "tnt/comm/communicator/group_object.hpp"
#include "tnt/comm/communicator/streams.hpp"
#include "tnt/comm/communicator/wait.hpp"

namespace tnt::comm {
namespace {

constexpr auto kCreationLookInterval = std::chrono::milliseconds(100);

int index_in(const std::vector<int>& ranks, int rank) {
  return static_cast<int>(std::lower_bound(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

// The order that the job asks for is one of all its ranks.
SumTree tree_of(const Environment& environment, std::size_t num_members) {
  const auto size = static_cast<int>(num_members);
  const bool is_given = !environment.sum_tree.empty() && size == environment.size;
  return is_given ? SumTree(environment.sum_tree) : SumTree(size);
}

HostLayout hosts_of(const Transport& transport, const std::vector<int>& ranks,
                    const SumTree& tree) {
  std::vector<int> nodes;
  for (const int rank : ranks) nodes.push_back(transport.node_of(rank));
  return host_layout(nodes, tree);
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
    throw UsageError("`ranks` must be ascending, different ranks in [0, ", environment.size,
                     "). Received: ", describe_ranks(ranks), ".");
  }
  if (!std::binary_search(ranks.begin(), ranks.end(), environment.rank)) {
    throw UsageError("rank ", environment.rank, " creates a group of ", describe_ranks(ranks),
                     " and is not one of them. Only members create a group.");
  }
}

std::string group_key(const CreationId& id) {
  return text("group-", std::hex, std::setw(16), std::setfill('0'), id.members, std::dec, "-",
              id.use);
}

}  // namespace

/// Watches the creation of a group, as long as it lives, while this rank waits for the
/// other members, and tells them if this rank fails.
class JoinWatch {
 public:
  /// `rendezvous` may be null: nothing is watched then. `title` is the group's.
  JoinWatch(std::shared_ptr<Rendezvous> rendezvous, const CreationId& id, const Group& group,
            std::string title, const CallLabel& label)
      : rendezvous_(std::move(rendezvous)),
        id_(id),
        group_(group),
        title_(std::move(title)),
        label_(label) {
    if (rendezvous_) rendezvous_->begin(id_);
  }
  ~JoinWatch() {
    if (rendezvous_) send([this] { rendezvous_->withdraw(id_); });
  }
  JoinWatch(JoinWatch&&) = delete;

  /// To be called several times per second, or more often. Throws the failure of another member.
  /// After a long wait: a mismatch error if another member waits for this rank in another call.
  void look() {
    if (!rendezvous_) return;
    // At each look, for it comes just before the rank that is told as well ends.
    if (const auto reason = rendezvous_->refusal()) give_up({ErrorKind::mismatch, *reason});
    if (const auto error = rendezvous_->failure_of_others(group_.ranks(), id_, title_)) {
      give_up(*error);
    }
    const Clock::time_point now = Clock::now();
    if (now < next_look_) return;
    next_look_ = now + kCreationLookInterval;
    if (seconds_since(start_) < group_.stall_report_s()) return;
    if (!has_note_) title_ += note_of(label_);
    has_note_ = true;
    rendezvous_->tell(group_.ranks(), id_, title_);
    require_same_group();
  }

  /// This rank gives the creation up, unless all have heard of another's failure.
  void fail(const Error& error) {
    if (rendezvous_ && !is_over_) send([&] { rendezvous_->fail(group_.ranks(), id_, error); });
  }

 private:
  void require_same_group() {
    for (const int member : group_.ranks()) {
      const auto notice = rendezvous_->awaited_by(member);
      if (!notice) continue;
      const Error error = Error(ErrorKind::mismatch, "rank ", member, " creates ", *notice,
                                ", while another member of it creates ", title_, kCreationRule)
                              .caused_by(member);
      rendezvous_->refuse(error.what());
      give_up(error);
    }
  }

  // All members know of the error.
  [[noreturn]] void give_up(const Error& error) {
    is_over_ = true;
    throw Error(error);
  }

  static void send(const std::function<void()>& send) {
    try {
      send();
    } catch (const Error&) {
      // Nothing can be sent any more: who waits for this rank will see that itself.
    }
  }

  std::shared_ptr<Rendezvous> rendezvous_;
  CreationId id_;
  const Group& group_;
  std::string title_;
  const CallLabel& label_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point next_look_ = start_;
  bool has_note_ = false;
  bool is_over_ = false;
};

std::shared_ptr<Group> Group::create(Runtime& runtime, std::vector<int> ranks,
                                     const std::string& name, const CallLabel& label) {
  auto group = std::make_shared<Group>(runtime, std::move(ranks));
  group->join(name, label);
  runtime.watch(group);
  return group;
}

std::shared_ptr<Group> Group::create(std::vector<int> ranks, const CallLabel& label) {
  Runtime& current = comm::runtime();
  require_valid_ranks(ranks, current.environment());
  const std::string name = describe_ranks(ranks);
  return create(current, std::move(ranks), name, label);
}

std::shared_ptr<Group> Group::world() {
  return comm::runtime().world();
}

Group::Group(Runtime& runtime, std::vector<int> ranks)
    : runtime_(runtime),
      ranks_(std::move(ranks)),
      rank_(index_in(ranks_, runtime.environment().rank)),
      id_(runtime.next_creation_of(ranks_)),
      key_(group_key(id_)),
      tree_(tree_of(runtime.environment(), ranks_.size())),
      hosts_(hosts_of(runtime.transport(), ranks_, tree_)) {
  if (runtime.transport().is_readable_among(ranks_)) {
    topology_ = Topology::readable;
  } else {
    topology_ = hosts_.has_branches ? Topology::hierarchical : Topology::put_only;
  }
}

void Group::join(const std::string& name, const CallLabel& label) {
  const std::string title = text("group '", name, "'");
  const std::shared_ptr<Group>& world = runtime_.world();
  JoinWatch watch(world ? world->abort_state()->rendezvous() : nullptr, id_, *this, title, label);
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

void Group::open(const std::string& name, const std::string& title, JoinWatch& watch) {
  const std::size_t slot_bytes = slot_bytes_for(topology_);
  // The first group is the world, which has room for news of later ones.
  const std::shared_ptr<Group>& world = runtime_.world();
  SegmentPlan plan;
  plan.add({AbortState::num_bytes(ranks_.size()), AbortState::kNotification + 1});
  const auto news = plan.add(
      world ? MemoryNeeds{}
            : MemoryNeeds{Rendezvous::num_bytes(ranks_.size()), Rendezvous::kNumNotifications});
  const auto slots = plan.add(stream_needs(topology_, tree_, slot_bytes));
  SegmentSet segments(*this, key_, title, [&watch] { watch.look(); });
  StreamMemory memory{
      .slot_bytes = slot_bytes, .offset = slots.offset, .notification = slots.notification};
  if (topology_ == Topology::hierarchical) create_levels(segments, hosts_, memory);
  // At last that of all members: none has it before all have made the others.
  memory.segment = segments.create(plan.totals().front());
  auto rendezvous =
      world ? world->abort_state()->rendezvous()
            : std::make_shared<Rendezvous>(memory.segment, news.offset, news.notification);
  abort_state_ = std::make_shared<AbortState>(name, ranks_, memory.segment, runtime_.transport(),
                                              std::move(rendezvous));
  stream_.collectives = make_stream(*this, operation_context(), memory);
  warn_of_one_level();
  stream_.row = add_row(title);
}

void Group::warn_of_one_level() const {
  const bool is_first_of_ranks = id_.use == 0;
  if (topology_ != Topology::put_only || hosts_.objection.empty()) return;
  if (rank() != 0 || !is_first_of_ranks) return;
  log_warning(abort_state_->world_rank(), "group '", name(),
              "' sends the data of every rank over the network: ", hosts_.objection,
              " each host would sum the data of its own ranks first. [not-hierarchical]");
}

CallStream Group::create_flat_stream(SegmentSet& segments, std::size_t slot_bytes) {
  const MemoryNeeds needs = stream_needs(topology_, tree_, slot_bytes);
  return {.collectives =
              make_stream(*this, operation_context(),
                          {.segment = segments.create(needs), .slot_bytes = slot_bytes})};
}

std::pair<CreationId, std::string> Group::next_object() {
  const std::uint64_t number = num_objects_++;
  return {{.members = fingerprint_of(std::string_view(key_)), .use = number},
          text(key_, "-object-", number)};
}

}  // namespace tnt::comm
