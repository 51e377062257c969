#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tnt/comm/collective/bucket_operation.hpp"
#include "tnt/comm/communicator/device_buckets.hpp"
#include "tnt/comm/communicator/group.hpp"
#include "tnt/comm/reducer/plan.hpp"
#include "tnt/comm/reducer/tracks.hpp"

namespace tnt::comm {

struct FusedTensor;
struct FusedTensors;

/// A result that somebody reads where it was formed, 64-byte aligned. The memory is the
/// borrower's, also for writing, until the last copy of the view is gone; it keeps the
/// memory alive, whatever else has been closed. Dropped by any thread.
using BorrowedView = std::shared_ptr<std::byte>;

/// Sums the same list of tensors over all ranks, step after step.
///
/// start() copies a tensor into its bucket; the last one of a bucket sets its allreduce going.
/// finish() waits for it and copies the sum out; lend() hands it out where it is. start_into()
/// spares both copies where a tensor can be summed where it lies: large ones on one host. Each
/// tensor alternates between start and finish; different tensors in any order and from any threads.
/// Buckets progress independently of each other, so ranks may start them in different orders.
///
/// A reducer for GPUs has its buckets there: start_on_device() and finish_on_device() put work
/// into the stream of whoever computes the tensors, and sums never wait for what comes later in it.
/// Its tensors may be started and finished in the memory of the host as well, which takes longer.
class TNT_COMM_EXPORT GradientReducer {
 public:
  /// Collective among the group, blocking. Mismatch error on all ranks if the plans differ, naming
  /// the first tensor that does. `phase` names, for the timeline, what happens from the first start
  /// of a step to its last; "" if that means nothing.
  GradientReducer(std::shared_ptr<Group> group, const FusionPlan& plan, std::string name,
                  const std::string& phase = {});
  /// The same for tensors of GPUs, on all members.
  GradientReducer(std::shared_ptr<Group> group, const FusionPlan& plan, std::string name,
                  DeviceFinder find_device, const std::string& phase = {});
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

  /// Packs scale * data, which is on this rank's GPU, after what is in the stream now. Never waits,
  /// neither for another rank nor for the GPU: the data is needed until the stream has gone on.
  void start_on_device(std::size_t id, DevicePointer data, double scale, ForeignStream stream);

  /// Waits for the other ranks, then puts a copy of the sum into the stream. The memory of `out` is
  /// used in the order of the stream. Arguments as of finish().
  void finish_on_device(std::size_t id, DevicePointer out, ForeignStream stream,
                        double timeout_s = 0, const InterruptCheck& check_interrupt = {});

  /// What sums the tensors of GPUs; nothing if this is no reducer for them.
  const std::optional<DeviceEngine>& device_engine() const { return device_engine_; }
  /// Whether its buckets are on a GPU.
  bool is_on_device() const { return is_on_device_; }

  /// Waits, then writes the sum to `out`, which may be null after start_into().
  /// `timeout_s` <= 0: that of set_timeout().
  void finish(std::size_t id, void* out, double timeout_s = 0,
              const InterruptCheck& check_interrupt = {});

  /// Like finish, without the copy. Null if the sum cannot be lent: those of reducers for GPUs are
  /// not, small tensors are cheaper to copy, compressed ones must be widened, results of one step
  /// of a bucket are lent at a time, and what start_into() began is its caller's already. The
  /// tensor then is as before: finish() it.
  BorrowedView lend(std::size_t id, double timeout_s = 0,
                    const InterruptCheck& check_interrupt = {});

  /// The longest wait of calls that say none; <= 0: the job's, as at the beginning.
  void set_timeout(double timeout_s) { timeout_s_.store(timeout_s); }

  /// Later calls are usage errors. Local; memory is freed when nobody uses it.
  void close() { is_closed_.store(true); }

 private:
  void create(const FusionPlan& plan, const std::string& phase);
  void create_buckets(const FusionPlan& plan, SegmentSet& segments);
  BucketSpec lay_out(const FusionPlan& plan, std::size_t index);
  void connect(const FusionPlan& plan, std::size_t index);
  void require_on_device(std::size_t id, DevicePointer data, const char* argument) const;
  void require_usable(std::size_t id) const;
  FusedTensor& begin_start(std::size_t id, double scale);
  /// Packs a tensor by a function, and starts its bucket if it is the last one.
  template <typename Function>
  void start_by(FusedTensor& tensor, Function&& function);
  void end_start(FusedTensor& tensor);
  void launch(FusedTensors& bucket);
  /// Finishes a tensor by a function; it stays as it is if that says false, or throws.
  template <typename Function>
  void finish_by(FusedTensor& tensor, const char* call, Function&& function);
  void wait_for_sum(const FusedTensor& tensor, double timeout_s,
                    const InterruptCheck& check_interrupt);
  double timeout_of(double timeout_s) const;
  static void hand_out(FusedTensor& tensor);

  std::shared_ptr<Group> group_;
  std::string name_;
  DeviceFinder find_device_;  // none if this is no reducer for GPUs
  bool is_on_device_ = false;
  std::optional<DeviceEngine> device_engine_;
  std::vector<FusedTensor*> tensors_;  // of the buckets, in the plan's order
  std::vector<std::shared_ptr<FusedTensors>> buckets_;
  std::unique_ptr<PhaseTrack> phase_track_;  // null without a timeline
  std::atomic<double> timeout_s_{0};
  std::atomic<bool> is_closed_{false};
};

}  // namespace tnt::comm
