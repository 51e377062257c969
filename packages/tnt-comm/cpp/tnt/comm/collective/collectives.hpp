#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tnt/comm/base/recycled_memory.hpp"
#include "tnt/comm/collective/abort_state.hpp"
#include "tnt/comm/collective/descriptor.hpp"
#include "tnt/comm/kernel/sum_tree.hpp"
#include "tnt/comm/progress/operation.hpp"
#include "tnt/comm/trace/monitor.hpp"

namespace tnt::comm {

/// What all operations of a group share: errors break the group, waits are
/// watched, and ended when the awaited rank is gone.
class CollectiveOperation : public Operation {
 public:
  explicit CollectiveOperation(std::shared_ptr<AbortState> abort_state)
      : abort_state_(std::move(abort_state)) {}

  Progress advance() final {
    abort_state_->rethrow_if_broken();
    probe_.advance();
    if (last_progress_ == Clock::time_point{}) last_progress_ = Clock::now();
    try {
      const Progress progress = do_advance();
      if (progress != Progress::pending) last_progress_ = Clock::now();
      return progress;
    } catch (const Error& error) {
      abort_state_->fail(error);
      throw;
    } catch (...) {
      // No memory, say. The others would wait for this rank, which will not come.
      const Error cause = Error::current();
      const Error error = error_of(cause.kind(), "cannot be completed: ", cause.what(), ".")
                              .caused_by(cause.cause_rank());
      abort_state_->fail(error);
      throw error;
    }
  }

  Progress supervise() final {
    abort_state_->rethrow_if_broken();
    try {
      require_alive();
      abort_state_->check_failures_of_others();
    } catch (const Error& error) {
      // Whatever arrived in the meantime may tell more (a mismatch).
      const Progress progress = advance();
      if (progress != Progress::pending) return progress;
      const Error known = explained(error);
      abort_state_->fail(known);
      throw known;
    }
    return Progress::pending;
  }

  void complete() override {
    probe_.end(true);
    completion_.complete();
  }
  void fail(const Error& error) override {
    release_arrays();
    probe_.end(false);
    completion_.fail(error);
  }

  const Completion& completion() const { return completion_; }

  /// Nothing touches the caller's arrays any more, neither advance(), which the group is too
  /// broken for, nor messages that are still to come. While the engine is paused only.
  virtual void release_arrays() {}

  /// Whose it is if not the group's own, such as "Gatherer 'rows'". Before it is submitted.
  void belong_to(std::string owner) { owner_ = std::move(owner); }

  /// What the caller says about the call, for messages (see CallLabel).
  CallNote& note() { return note_; }
  Probe& probe() { return probe_; }

  /// When its turn came, or it did something the last time; long ago before that. While the engine
  /// is paused only, as the next two.
  Clock::time_point last_progress() const { return last_progress_; }

  /// World ranks whose next act is waited for: this one, if it is its own.
  std::vector<int> awaited_ranks() const {
    std::vector<int> ranks;
    for (const int member : awaited_members()) ranks.push_back(abort_state_->world_rank_of(member));
    if (ranks.empty()) ranks.push_back(abort_state_->world_rank());
    return ranks;
  }

  /// Reports a long wait: who is waited for, and for what.
  void report_wait(double waited_s) const {
    const std::vector<AwaitedMember> members = observe_awaited();
    const bool is_call_awaited =
        !members.empty() && std::all_of(members.begin(), members.end(), [](const auto& member) {
          return member.status.state == PeerState::running && !is_silent(member.status) &&
                 !member.has_made_call;
        });
    log_warning(abort_state_->world_rank(), title(), " has waited ", waited_s, " s for ",
                in_words(members), ".", is_call_awaited ? kAdvice : "", " [stall]");
  }

  /// Breaks the group, since a wait took too long, and fails this. While the engine is paused only.
  void expire(double timeout_s) {
    break_group(error_of(ErrorKind::timeout, "was not complete after ", timeout_s,
                         " s; it waits for ", in_words(observe_awaited()),
                         ". Check that every member makes the same calls in the same order, or"
                         " allow more time (timeout_s, TNT_TIMEOUT_S)."));
  }

  /// Breaks the group because the caller will not wait any longer.
  void abandon() {
    break_group(error_of(ErrorKind::comm, "was abandoned: the wait was interrupted."));
  }

  /// Breaks the group by this error, and fails the operation. While paused only, as the next two.
  void break_group(const Error& error) {
    abort_state_->fail(error);
    fail(error);
  }

  /// Members that it waits for now, as reports of long waits name them. Where messages are passed
  /// on, this is who holds up the others, and not only who this rank hears from.
  virtual std::vector<int> awaited_members() const { return missing(); }

  std::string title() const {
    const std::string of_owner = owner_.empty() ? "" : text(owner_, " in ");
    return text(describe(), " of ", of_owner, "group '", abort_state_->group_name(), "'");
  }

 protected:
  virtual Progress do_advance() = 0;

  /// For messages: "call 3, allreduce(float32, 100 elements, sum),".
  virtual std::string describe() const = 0;
  std::string describe_call(const Descriptor& descriptor) const {
    return text("call ", descriptor.call_index, ", ", descriptor.describe(), note_.text(), ",");
  }

  /// Members whose next act this operation waits for; empty if it is this rank's own.
  virtual std::vector<int> missing() const = 0;

  /// awaited_members(), where messages are passed on from rank to rank, given what is known of who
  /// has made the call: the members that have not if there are any, else those that do not respond,
  /// else the ones that this rank waits for itself.
  std::vector<int> members_holding_up() const {
    const std::vector<int> awaited = missing();
    if (awaited.empty()) return awaited;
    const int size = abort_state_->num_members();
    const auto absent = ranks_where(size, [this](int member) { return !has_made_call(member); });
    if (!absent.empty()) return absent;
    const auto silent = ranks_where(
        size, [this](int member) { return is_silent(abort_state_->status_of(member)); });
    return silent.empty() ? awaited : silent;
  }

  /// Whether an awaited member is known to have made the call itself.
  virtual bool has_made_call(int /*member*/) const { return false; }

  /// What this operation knows better than the error by which it would end.
  // A rank may have ended because of a mismatch that a third one has reported.
  virtual Error explained(const Error& error) const {
    const auto reported = abort_state_->failure_of_others();
    return reported && reported->kind() == ErrorKind::mismatch ? *reported : error;
  }

  /// What is missing if it is this rank's own act.
  virtual std::string own_part() const { return "this rank itself"; }
  static constexpr std::string_view kAwaitsRoom =
      "this rank itself: its messages wait for room in the queues of the network";

  const std::shared_ptr<AbortState>& abort_state() const { return abort_state_; }
  const CallNote& note() const { return note_; }

 private:
  // What the report of a wait ends with if nothing is missing but that running ranks make the call.
  static constexpr std::string_view kAdvice =
      " No error yet: a rank may still be preparing its first step, or reading data. If this lasts,"
      " look for a call that not all ranks make; the wait ends with an error at its timeout"
      " (timeout_s, TNT_TIMEOUT_S).";

  static std::string name_of(int rank, const PeerStatus& status) {
    return text("rank ", rank, " (host ", status.host, ", pid ", status.pid, ")");
  }

  static std::string fate_of(const PeerStatus& status) {
    switch (status.state) {
      case PeerState::starting:
        return "has not started";
      case PeerState::running:
        return "is running";
      case PeerState::finished:
        return text(
            "has finished: it ended without making this call",
            status.reason.empty() ? "" : ". Before, a creation had failed there: ", status.reason);
      case PeerState::failed:
        return text("has failed: ", status.reason);
      case PeerState::dead:
        if (!status.reason.empty()) {
          return text("is dead: it ended (", status.reason, ") without leaving the job");
        }
        return "is dead: it ended without leaving the job (killed, crashed or os._exit)";
      case PeerState::vanished:
        return text("cannot be reached: ", status.reason);
    }
    return {};
  }

  /// A member that is waited for, as it is at one moment: all that a message says
  /// of it must fit together, though it runs on.
  struct AwaitedMember {
    int world_rank;
    PeerStatus status;
    bool has_made_call;
  };

  template <typename... Values>
  Error error_of(ErrorKind kind, const Values&... values) const {
    return {kind, "rank ", abort_state_->world_rank(), ": ", title(), " ", values...};
  }

  std::vector<AwaitedMember> observe_awaited() const {
    std::vector<AwaitedMember> result;
    for (const int member : awaited_members()) {
      result.push_back({abort_state_->world_rank_of(member), abort_state_->status_of(member),
                        has_made_call(member)});
    }
    return result;
  }

  std::string in_words(const std::vector<AwaitedMember>& members) const {
    if (members.empty()) return own_part();
    std::string result;
    for (const AwaitedMember& member : members) {
      const char* state = ", which runs but has not called it yet";
      if (member.has_made_call) state = ", which has called it and has not done its part yet";
      if (is_silent(member.status)) state = ", which does not respond: stopped or swapped out";
      result += text(result.empty() ? "" : "; ", name_of(member.world_rank, member.status), state,
                     " (last sign of life ", member.status.heartbeat_age_s, " s ago)");
    }
    return result;
  }

  void require_alive() const {
    for (const int member : missing()) {
      const PeerStatus status = abort_state_->status_of(member);
      if (status.state == PeerState::running || status.state == PeerState::starting) continue;
      // It may have done its part just before it ended.
      if (std::ranges::count(missing(), member) == 0) continue;
      const bool has_output = status.state != PeerState::vanished;
      const std::string fate = fate_of(status);
      const int peer = abort_state_->world_rank_of(member);
      throw error_of(ErrorKind::peer_lost, "needs ", name_of(peer, status), ", which ", fate,
                     full_stop_after(fate),
                     has_output ? " Look at the output of that rank first." : "")
          .caused_by(peer);
    }
  }

  std::shared_ptr<AbortState> abort_state_;
  std::string owner_;
  CallNote note_;
  Clock::time_point last_progress_;
  Completion completion_;
  Probe probe_;
};

class QuickAllreduce;
class SharedRegions;

struct Gathered {
  RecycledMemory blocks;          ///< of all members in their order, back to back
  std::vector<std::size_t> ends;  ///< where each ends, in bytes

  std::size_t begin_of(std::size_t member) const { return member == 0 ? 0 : ends[member - 1]; }
  std::size_t size_of(std::size_t member) const { return ends[member] - begin_of(member); }
};

/// The arrays of a call on this rank. They stay as they are (`out`: untouched by others) until the
/// call is complete.
struct CallArrays {
  /// Only the root's is read by broadcast and scatter.
  const void* in = nullptr;
  /// Keeps `in` where it is, if the caller does not.
  std::shared_ptr<const void> owner = nullptr;
  /// Of broadcast and allreduce it may be `in`, otherwise it must not overlap it.
  void* out = nullptr;
  /// The elements of each member's part of `in`, in member order, where there are parts:
  /// reduce_scatter, alltoall and scatter. `out` receives this rank's part, reduced; that of each
  /// member, one behind the other; that of the root.
  std::vector<Range> parts = {};
  /// Instead of `out`, of allgather and gather, which fills it on the root alone.
  std::shared_ptr<Gathered> gathered = nullptr;
};

/// Whether a member gives the same to all others, or something different to each.
enum class SentParts { same, different };

/// Makes the collectives of one stream, each for the kind of memory that the
/// ranks share. Operations run one after the other, in the order of the calls.
class Collectives {
 public:
  using Made = std::shared_ptr<CollectiveOperation>;

  virtual ~Collectives() = default;

  /// The collective that the descriptor names, on the arrays that it uses.
  virtual Made make(const Descriptor& descriptor, CallArrays arrays) = 0;

  /// The short path of small allreduces, and the operation that takes over what
  /// it has begun; null where there is none.
  virtual QuickAllreduce* quick_allreduce() { return nullptr; }
  virtual Made take_over(const QuickAllreduce& /*quick*/, const void* /*in*/, void* /*out*/) {
    return nullptr;
  }
};

struct MemoryNeeds {
  std::size_t num_bytes = 0;
  std::size_t num_notifications = 0;
};

struct StreamMemory {
  std::shared_ptr<Segment> segment = {};                      ///< of all members
  std::shared_ptr<Segment> on_host = {}, between_hosts = {};  ///< with two levels
  std::size_t slot_bytes = 0;  ///< about so long are the slots through which large messages go
  std::size_t offset = 0;      ///< in `segment`; the other two are used from their begin
  NotificationId notification = 0;
};

struct OperationContext {
  std::shared_ptr<AbortState> abort_state;
  SumTree tree;
  AllreduceAlgorithm requested = AllreduceAlgorithm::automatic;
  std::shared_ptr<const SharedRegions> regions = {};
};

}  // namespace tnt::comm
