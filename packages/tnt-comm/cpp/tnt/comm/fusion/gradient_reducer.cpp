#include "tnt/comm/fusion/gradient_reducer.hpp"

#include <utility>

#include "tnt/comm/base/partition.hpp"
#include "tnt/comm/base/text.hpp"
#include "tnt/comm/fusion/reducer_tracks.hpp"
#include "tnt/comm/group/creation.hpp"
#include "tnt/comm/kernel/pack.hpp"

namespace tnt::comm {

/// A bucket and its allreduce.
struct GradientReducer::FusedTensors {
  std::shared_ptr<BucketAllreduce> allreduce;
  std::shared_ptr<BucketTrack> track;  // null without a timeline
  std::shared_ptr<Stream> stream = std::make_shared<Stream>();
  std::size_t num_tensors = 0;
  std::atomic<std::size_t> num_packed{0};  // of the step that is being packed
};

/// A tensor's place and where it is between start and finish.
struct GradientReducer::Tensor {
  TensorSpec spec;
  FusedTensors* bucket = nullptr;
  std::size_t offset = 0;
  std::atomic<State> state{State::idle};
  std::uint64_t step = 0;  // written by finish() only, which start() follows
};

GradientReducer::GradientReducer(std::shared_ptr<Group> group, const FusionPlan& plan,
                                 std::string name, const std::string& phase)
    : group_(std::move(group)), name_(std::move(name)) {
  group_->health()->require_intact();
  require_same_creation(*group_, text("GradientReducer '", name_, "'"), describe(plan));
  create_buckets(plan);
  Timeline* timeline = group_->monitor()->timeline.get();
  if (timeline != nullptr && !phase.empty()) {
    phase_track_ = std::make_unique<PhaseTrack>(*timeline, phase, name_, tensors_.size());
  }
}

GradientReducer::~GradientReducer() = default;

void GradientReducer::create_buckets(const FusionPlan& plan) {
  const auto num_members = static_cast<std::size_t>(group_->size());
  std::vector<ChannelLayout> layouts;
  std::size_t num_bytes = 0;
  NotificationId num_notifications = 0;
  for (const Bucket& bucket : plan.buckets()) {
    ChannelLayout layout;
    layout.offset = num_bytes;
    layout.notification = num_notifications;
    layout.window_bytes = round_up(bucket.num_elements * size_of(bucket.dtype), 64);
    num_bytes += layout.num_bytes(num_members);
    num_notifications += ChannelLayout::kNumNotifications;
    layouts.push_back(layout);
  }
  const std::shared_ptr<Segment> segment = group_->create_segment(num_bytes, num_notifications);
  tensors_.resize(plan.tensors().size());
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    const Bucket& bucket = plan.buckets()[i];
    auto fused = std::make_unique<FusedTensors>();
    fused->num_tensors = bucket.tensor_ids.size();
    fused->allreduce = std::make_shared<BucketAllreduce>(
        group_->health(), group_->stall_report_s(), segment, layouts[i], bucket.dtype,
        bucket.num_elements, describe_bucket(plan, i, name_));
    for (std::size_t k = 0; k < bucket.tensor_ids.size(); ++k) {
      auto tensor = std::make_unique<Tensor>();
      tensor->spec = plan.tensors()[bucket.tensor_ids[k]];
      tensor->bucket = fused.get();
      tensor->offset = bucket.offsets[k];
      tensors_[bucket.tensor_ids[k]] = std::move(tensor);
    }
    observe(*fused, i, plan);
    buckets_.push_back(std::move(fused));
  }
}

void GradientReducer::observe(FusedTensors& bucket, std::size_t index, const FusionPlan& plan) {
  const Bucket& planned = plan.buckets()[index];
  const std::size_t num_bytes = planned.num_elements * size_of(planned.dtype);
  if (Timeline* timeline = group_->monitor()->timeline.get()) {
    bucket.track = std::make_shared<BucketTrack>(*timeline, label_of_bucket(index, name_),
                                                 describe_bucket(plan, index, name_), num_bytes,
                                                 planned.tensor_ids.size());
  }
  bucket.allreduce->probe().attach(group_->monitor(), bucket.track, num_bytes);
}

const TensorSpec& GradientReducer::tensor(std::size_t id) const {
  require_usable(id);
  return tensors_[id]->spec;
}

void GradientReducer::require_usable(std::size_t id) const {
  if (is_closed_.load()) throw UsageError(text("GradientReducer '", name_, "' is closed."));
  if (id >= tensors_.size()) {
    throw UsageError(text("GradientReducer '", name_, "' has tensors 0 to ", tensors_.size(),
                          " - 1. Received: tensor ", static_cast<std::int64_t>(id), "."));
  }
}

void GradientReducer::enter(Tensor& tensor, State from, State to, const char* call) {
  State found = from;
  if (tensor.state.compare_exchange_strong(found, to)) return;
  constexpr const char* kStates[] = {"not started", "being started by another thread",
                                     "started and not finished",
                                     "being finished by another thread"};
  throw UsageError(text("GradientReducer '", name_, "': ", call, " of tensor '", tensor.spec.name,
                        "', which is ", kStates[static_cast<int>(found)],
                        ". Each step is one start, then one finish, of every tensor."));
}

void GradientReducer::start(std::size_t id, const void* data, double scale) {
  require_usable(id);
  Tensor& tensor = *tensors_[id];
  require_scalable(tensor.spec.dtype, scale);
  group_->health()->require_intact();
  enter(tensor, State::idle, State::packing, "start");
  if (phase_track_) phase_track_->begin_tensor(tensor.step);
  FusedTensors& bucket = *tensor.bucket;
  std::byte* target =
      bucket.allreduce->input(tensor.step) + tensor.offset * size_of(tensor.spec.dtype);
  pack_scaled(target, data, tensor.spec.num_elements, tensor.spec.dtype, scale);
  tensor.state.store(State::started);
  if (phase_track_) phase_track_->end_tensor();
  if (bucket.num_packed.fetch_add(1) + 1 < bucket.num_tensors) return;
  if (bucket.track) bucket.track->ready(tensor.step);
  launch(bucket);
}

void GradientReducer::launch(FusedTensors& bucket) {
  // Nobody can pack for the next step yet: that takes a finish() of this one.
  bucket.num_packed.store(0);
  bucket.allreduce->post();
  bucket.allreduce->probe().post();
  if (group_->size() == 1) {
    bucket.allreduce->complete();  // nothing to add to
  } else {
    group_->engine().submit(bucket.stream, bucket.allreduce);
  }
}

void GradientReducer::finish(std::size_t id, void* out, double timeout_s,
                             const InterruptCheck& check_interrupt) {
  require_usable(id);
  Tensor& tensor = *tensors_[id];
  enter(tensor, State::started, State::finishing, "finish");
  const double limit_s = timeout_s > 0 ? timeout_s : group_->timeout_s();
  try {
    wait_for(group_->engine(), *tensor.bucket->allreduce, *group_->health(),
             static_cast<std::uint32_t>(tensor.step + 1), limit_s, check_interrupt);
  } catch (...) {
    tensor.state.store(State::started);
    throw;
  }
  const std::size_t end = tensor.offset + tensor.spec.num_elements;
  tensor.bucket->allreduce->copy_result(tensor.step, tensor.offset, end, out);
  ++tensor.step;
  if (tensor.bucket->track) tensor.bucket->track->finish_tensor();
  tensor.state.store(State::idle);
}

}  // namespace tnt::comm
