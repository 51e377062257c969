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
#include "tnt/comm/trace/monitor.hpp"

namespace tnt::comm {

/// Draws a bucket: the row is *ready* when its last tensor is packed, *started*
/// when the others have been told, *reduced* when the sum is there, and
/// *finished* when the last tensor was handed out.
class BucketTrack final : public Track {
 public:
  /// `label`: short; `title`: with all that the reader may want to know.
  BucketTrack(Timeline& timeline, const std::string& label, const std::string& title,
              std::size_t num_bytes, std::size_t num_tensors)
      : timeline_(timeline),
        row_(timeline.add_row({.title = title,
                               .category = "bucket",
                               .value_name = "step",
                               .bucket = label,
                               .num_bytes = num_bytes})),
        wait_name_(timeline.name(text("wait for ", label))),
        num_tensors_(num_tensors) {}

  void ready(std::uint64_t step) {
    step_ = step;
    timeline_.record(EventKind::state, row_, ready_, step);
  }
  void post() override { timeline_.record(EventKind::state, row_, started_, step_); }
  void end(bool is_complete) override {
    if (is_complete) return timeline_.record(EventKind::state, row_, reduced_, step_);
    timeline_.record(EventKind::instant, row_, failed_, step_);
  }
  void finish_tensor() {
    if (num_finished_.fetch_add(1) + 1 < num_tensors_) return;
    num_finished_.store(0);
    timeline_.record(EventKind::instant, row_, finished_, step_);
  }
  NameId wait_name() const override { return wait_name_; }

 private:
  Timeline& timeline_;
  RowId row_;
  NameId ready_ = timeline_.name("ready");
  NameId started_ = timeline_.name("started");
  NameId reduced_ = timeline_.name("reduced");
  NameId finished_ = timeline_.name("finished");
  NameId failed_ = timeline_.name("failed");  // now, since then there may be no memory
  NameId wait_name_;
  std::size_t num_tensors_;
  std::atomic<std::size_t> num_finished_{0};  // tensors of the step
  std::uint64_t step_ = 0;
};

/// Draws the phase of each step in which the tensors of a reducer are started,
/// from the first start to the last. For gradients: backpropagation.
class PhaseTrack {
 public:
  PhaseTrack(Timeline& timeline, const std::string& phase, const std::string& reducer,
             std::size_t num_tensors)
      : timeline_(timeline),
        row_(timeline.add_row(
            {.title = text(phase, " (", reducer, ")"), .category = "phase", .value_name = "step"})),
        name_(timeline.name(phase)),
        num_tensors_(num_tensors) {}

  void begin_tensor(std::uint64_t step) {
    if (num_begun_.fetch_add(1) == 0) timeline_.record(EventKind::begin, row_, name_, step);
  }
  void end_tensor() {
    if (num_ended_.fetch_add(1) + 1 < num_tensors_) return;
    num_ended_.store(0);
    num_begun_.store(0);
    timeline_.record(EventKind::end, row_, name_);
  }

 private:
  Timeline& timeline_;
  RowId row_;
  NameId name_;
  std::size_t num_tensors_;
  std::atomic<std::size_t> num_begun_{0};
  std::atomic<std::size_t> num_ended_{0};
};

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
  bool is_on_device() const { return device_ != nullptr; }

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
  enum class State : int { idle, packing, started, finishing };
  struct Tensor;
  struct FusedTensors;

  void create(const FusionPlan& plan, const std::string& phase);
  void create_buckets(const FusionPlan& plan, SegmentSet& segments);
  BucketSpec lay_out(const FusionPlan& plan, std::size_t index);
  void connect(const FusionPlan& plan, std::size_t index,
               std::shared_ptr<BucketOperation> allreduce);
  void connect_to_device(std::size_t index, std::shared_ptr<DeviceBucket> bucket);
  void require_on_device(std::size_t id, DevicePointer data, const char* argument) const;
  void require_usable(std::size_t id) const;
  void enter(Tensor& tensor, State from, State to, const char* call);
  Tensor& begin_start(std::size_t id, double scale);
  void pack(Tensor& tensor, const void* data, double scale);
  /// Packs a tensor by a function, and starts its bucket if it is the last one.
  template <typename Function>
  void start_by(Tensor& tensor, Function&& function);
  void end_start(Tensor& tensor);
  void launch(FusedTensors& bucket);
  /// Finishes a tensor by a function; it stays as it is if that says false, or throws.
  template <typename Function>
  void finish_by(Tensor& tensor, const char* call, Function&& function);
  void wait_for_sum(const Tensor& tensor, double timeout_s, const InterruptCheck& check_interrupt);
  double timeout_of(double timeout_s) const;
  static void pack_on_host(const Tensor& tensor, std::byte* target, const void* data, double scale);
  static void unpack_on_host(const Tensor& tensor, void* out, const std::byte* sum);
  void copy_out(const Tensor& tensor, void* out, double timeout_s) const;
  static void hand_out(Tensor& tensor);

  std::shared_ptr<Group> group_;
  std::string name_;
  DeviceFinder find_device_;        // none if this is no reducer for GPUs
  std::shared_ptr<Device> device_;  // null without a GPU
  std::optional<DeviceEngine> device_engine_;
  std::vector<Tensor*> tensors_;  // of the buckets, in the plan's order
  std::vector<std::shared_ptr<FusedTensors>> buckets_;
  std::unique_ptr<PhaseTrack> phase_track_;  // null without a timeline
  std::atomic<double> timeout_s_{0};
  std::atomic<bool> is_closed_{false};
};

}  // namespace tnt::comm
