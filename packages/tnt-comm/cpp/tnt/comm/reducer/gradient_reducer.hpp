#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/collective/bucket_operation.hpp"
#include "tnt/comm/communicator/group.hpp"
#include "tnt/comm/reducer/plan.hpp"

namespace tnt::comm {

class PhaseTrack;

/// A result that somebody reads where it was formed, 64-byte aligned. The memory is the
/// borrower's, also for writing, until the last copy of the view is gone; it keeps the
/// memory alive, whatever else has been closed. Dropped by any thread.
using BorrowedView = std::shared_ptr<std::byte>;

/// Sums the same list of tensors over all ranks, step after step.
///
/// start() copies a tensor into its bucket; the last tensor of a bucket sets
/// the bucket's allreduce going. finish() waits for it and copies the sum out;
/// lend() hands it out where it is. start_into() spares both copies where a
/// tensor can be summed where it lies: large ones on one host. Each tensor
/// alternates between start and finish; different tensors in any order and from
/// any threads. Buckets progress independently of each other, so ranks may start
/// them in different orders.
class TNT_COMM_EXPORT GradientReducer {
 public:
  /// Collective among the group, blocking. Mismatch error on all ranks if the
  /// plans differ, naming the first tensor that does. `phase` names, for the
  /// timeline, what happens from the first start of a step to its last; "" if
  /// that means nothing.
  GradientReducer(std::shared_ptr<Group> group, const FusionPlan& plan, std::string name,
                  const std::string& phase = {});
  ~GradientReducer();

  std::size_t num_tensors() const { return tensors_.size(); }
  std::size_t num_buckets() const { return buckets_.size(); }
  const TensorSpec& tensor(std::size_t id) const;

  /// Packs scale * data. Never waits for another rank.
  void start(std::size_t id, const void* data, double scale);

  /// The same for a sum that is to be in `out`, which may be `data`, after the
  /// finish(). Until then both are the reducer's, and `owner` keeps them alive,
  /// whatever happens to the reducer; it may be dropped by any thread.
  void start_into(std::size_t id, const void* data, void* out, double scale,
                  std::shared_ptr<void> owner);

  /// Whether start_into() does without a copy.
  bool is_summed_in_place(std::size_t id) const;

  /// Waits, then writes the sum to `out`, which may be null after start_into().
  /// `timeout_s` <= 0: that of set_timeout().
  void finish(std::size_t id, void* out, double timeout_s = 0,
              const InterruptCheck& check_interrupt = {});

  /// Like finish, without the copy. Null if the sum cannot be lent: small
  /// tensors are cheaper to copy, compressed ones must be widened, only the
  /// results of one step of a bucket are lent at a time, and what start_into()
  /// began is its caller's already. The tensor then is as
  /// before the call: finish() it.
  BorrowedView lend(std::size_t id, double timeout_s = 0,
                    const InterruptCheck& check_interrupt = {});

  /// The longest wait of calls that say none; <= 0: the job's, as at the beginning.
  void set_timeout(double timeout_s) { timeout_s_.store(timeout_s); }

  /// Later calls are usage errors. Local; memory is freed when nobody uses it.
  void close() { is_closed_.store(true); }

 private:
  enum class State : int { idle, packing, started, finishing };
  struct Tensor;
  struct FusedTensors;

  void create_buckets(const FusionPlan& plan, SegmentSet& segments);
  BucketSpec lay_out(const FusionPlan& plan, std::size_t index);
  void connect(const FusionPlan& plan, std::size_t index,
               std::shared_ptr<BucketOperation> allreduce);
  void require_usable(std::size_t id) const;
  void enter(Tensor& tensor, State from, State to, const char* call);
  Tensor& begin_start(std::size_t id, double scale);
  void pack(Tensor& tensor, const void* data, double scale);
  void end_start(Tensor& tensor);
  void launch(FusedTensors& bucket);
  /// Finishes a tensor by a function; it stays as it is if that says false, or throws.
  template <typename Function>
  void finish_by(Tensor& tensor, const char* call, Function&& function);
  void wait_for_sum(const Tensor& tensor, double timeout_s, const InterruptCheck& check_interrupt);
  static void copy_out(const Tensor& tensor, void* out);
  static void hand_out(Tensor& tensor);

  std::shared_ptr<Group> group_;
  std::string name_;
  std::vector<Tensor*> tensors_;  // of the buckets, in the plan's order
  std::vector<std::shared_ptr<FusedTensors>> buckets_;
  std::unique_ptr<PhaseTrack> phase_track_;  // null without a timeline
  std::atomic<double> timeout_s_{0};
  std::atomic<bool> is_closed_{false};
};

}  // namespace tnt::comm
