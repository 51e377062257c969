#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tnt/comm/base/deadline.hpp"
#include "tnt/comm/collective/abort_state.hpp"
#include "tnt/comm/collective/descriptor.hpp"
#include "tnt/comm/progress/operation.hpp"
#include "tnt/comm/trace/monitor.hpp"

namespace tnt::comm {

/// What all operations of a group share: errors break the group, waits are
/// watched, and ended when the awaited rank is gone.
class CollectiveOperation : public Operation {
 public:
  explicit CollectiveOperation(std::shared_ptr<AbortState> abort_state)
      : abort_state_(std::move(abort_state)) {}

  Progress advance() final;
  Progress supervise() final;
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

  /// Whose operation it is if not the group's own, such as "Gatherer 'rows'".
  /// Before it is submitted.
  void belong_to(std::string owner) { owner_ = std::move(owner); }

  /// What the caller says about the call, for messages (see CallLabel).
  CallNote& note() { return note_; }

  /// Told by the operation what happens to it.
  Probe& probe() { return probe_; }

  /// When its turn came, or it did something the last time; long ago before that. While the engine
  /// is paused only, as the next two.
  Clock::time_point last_progress() const { return last_progress_; }

  /// World ranks whose next act is waited for: this one, if it is its own.
  std::vector<int> awaited_ranks() const;

  /// Reports a long wait: who is waited for, and for what.
  void report_wait(double waited_s) const;

  /// Breaks the group because a wait for this operation took too long, and
  /// fails it. While the engine is paused only.
  void expire(double timeout_s);

  /// Breaks the group because the caller will not wait any longer.
  void abandon();

  /// Breaks the group by this error, and fails the operation. While the engine is
  /// paused only, as the next two.
  void break_group(const Error& error);

  /// Members that it waits for now, as reports of long waits name them. Where messages are passed
  /// on, this is who holds up the others, and not only who this rank hears from.
  virtual std::vector<int> awaited_members() const { return missing(); }

  /// For messages: which call it is, and of which group.
  std::string title() const;

 protected:
  /// One part of the work; see Operation::advance.
  virtual Progress do_advance() = 0;

  /// For messages: "call 3, allreduce(float32, 100 elements, sum),".
  virtual std::string describe() const = 0;
  std::string describe_call(const Descriptor& descriptor) const {
    return text("call ", descriptor.call_index, ", ", descriptor.describe(), note_.text(), ",");
  }

  /// Members whose next act this operation waits for; empty if it is this
  /// rank's own.
  virtual std::vector<int> missing() const = 0;

  /// awaited_members(), where messages are passed on from rank to rank, given what is known of who
  /// has made the call: the members that have not if there are any, else those that do not respond,
  /// else the ones that this rank waits for itself.
  std::vector<int> members_holding_up() const;

  /// Whether an awaited member is known to have made the call itself.
  virtual bool has_made_call(int /*member*/) const { return false; }

  /// What this operation knows better than the error by which it would end.
  virtual Error explained(const Error& error) const;

  /// What is missing if it is this rank's own act.
  virtual std::string own_part() const { return "this rank itself"; }
  static constexpr std::string_view kAwaitsRoom =
      "this rank itself: its messages wait for room in the queues of the network";

  const std::shared_ptr<AbortState>& abort_state() const { return abort_state_; }
  const CallNote& note() const { return note_; }

 private:
  /// A member that is waited for, as it is at one moment: all that a message says
  /// of it must fit together, though it runs on.
  struct AwaitedMember {
    int world_rank;
    PeerStatus status;
    bool has_made_call;
  };

  Error error_of(ErrorKind kind, const std::string& what, int cause_rank = Error::kNoRank) const;
  std::vector<AwaitedMember> observe_awaited() const;
  std::string in_words(const std::vector<AwaitedMember>& members) const;
  void require_alive() const;

  std::shared_ptr<AbortState> abort_state_;
  std::string owner_;
  CallNote note_;
  Clock::time_point last_progress_;
  Completion completion_;
  Probe probe_;
};

}  // namespace tnt::comm
