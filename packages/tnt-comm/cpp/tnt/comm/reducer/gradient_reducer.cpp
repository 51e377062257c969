#include "tnt/comm/reducer/gradient_reducer.hpp"

#include <cstring>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "tnt/comm/base/process.hpp"
#include "tnt/comm/base/text.hpp"
#include "tnt/comm/communicator/creation.hpp"
#include "tnt/comm/communicator/streams.hpp"
#include "tnt/comm/kernel/pack.hpp"
#include "tnt/comm/reducer/reducer_tracks.hpp"
#include "tnt/comm/reducer/tensor_offsets.hpp"

namespace tnt::comm {
namespace {

// Copying less than this is cheaper than keeping account of a loan.
constexpr std::size_t kSmallestLoanBytes = 16 * 1024;

// From here on, packing costs more than treating a tensor by itself.
constexpr std::size_t kSmallestPlacedBytes = 64 * 1024;

std::size_t num_bytes_of(const TensorSpec& spec) {
  return spec.num_elements * size_of(spec.dtype);
}

bool is_large(const TensorSpec& spec, const Bucket& bucket) {
  return !bucket.is_compressed() && num_bytes_of(spec) >= kSmallestPlacedBytes;
}

std::vector<Range> large_tensors(const Bucket& bucket, const std::vector<TensorSpec>& tensors,
                                 const TensorOffsets& tensor_offsets) {
  std::vector<Range> large;
  for (std::size_t k = 0; k < bucket.tensor_ids.size(); ++k) {
    const TensorSpec& spec = tensors[bucket.tensor_ids[k]];
    const std::size_t begin = tensor_offsets.offsets[k];
    if (is_large(spec, bucket)) large.push_back({begin, begin + spec.num_elements});
  }
  return large;
}

}  // namespace

/// A tensor's place and where it is between start and finish.
struct GradientReducer::Tensor {
  TensorSpec spec;
  std::optional<DType> narrow;  // as what it travels, if that is not its own dtype
  FusedTensors* bucket = nullptr;
  std::size_t offset = 0;            // in bytes
  std::optional<std::size_t> place;  // among the bucket's tensors that can be summed in place
  std::byte* into = nullptr;         // of the step at hand, if its sum is to be there
  std::shared_ptr<void> owner;       // of `into`, if the bucket does not have it
  std::atomic<State> state{State::idle};
  std::atomic<std::uint64_t> step{0};  // written by finish() only, which start() follows

  bool is_placed() const { return place && into != nullptr; }  // in the step at hand
};

/// A bucket and its allreduce.
struct GradientReducer::FusedTensors {
  std::shared_ptr<BucketOperation> allreduce;
  std::shared_ptr<BucketTrack> track;  // null without a timeline
  std::shared_ptr<Stream> stream = std::make_shared<Stream>();
  std::deque<Tensor> tensors;              // which cannot be moved
  std::atomic<std::size_t> num_packed{0};  // of the step that is being packed

  std::string names_of_missing() const;
};

std::string GradientReducer::FusedTensors::names_of_missing() const {
  constexpr std::size_t kMostNames = 4;
  std::string names;
  std::size_t num_missing = 0;
  const std::uint64_t awaited = allreduce->num_posted();
  for (const Tensor& tensor : tensors) {
    const State state = tensor.state.load();
    const bool is_started = state == State::started || state == State::finishing;
    if (is_started && tensor.step.load() == awaited) continue;
    if (++num_missing <= kMostNames) {
      names += text(names.empty() ? ": '" : ", '", tensor.spec.name, "'");
    }
  }
  if (num_missing > kMostNames) names += text(" and ", num_missing - kMostNames, " more");
  return num_missing == 0 ? names : names + (num_missing == 1 ? " is missing" : " are missing");
}

GradientReducer::GradientReducer(std::shared_ptr<Group> group, const FusionPlan& plan,
                                 std::string name, const std::string& phase)
    : group_(std::move(group)), name_(std::move(name)) {
  group_->abort_state()->require_intact();
  create_together(*group_, text("GradientReducer '", name_, "'"), describe(plan),
                  [&](SegmentSet& segments) { create_buckets(plan, segments); });
  Timeline* timeline = group_->monitor()->timeline.get();
  if (timeline != nullptr && !phase.empty()) {
    phase_track_ = std::make_unique<PhaseTrack>(*timeline, phase, name_, tensors_.size());
  }
}

GradientReducer::~GradientReducer() = default;

void GradientReducer::create_buckets(const FusionPlan& plan, SegmentSet& segments) {
  std::vector<TensorOffsets> tensor_offsets;
  std::vector<BucketSpec> specs;
  for (std::size_t i = 0; i < plan.buckets().size(); ++i) {
    const Bucket& bucket = plan.buckets()[i];
    tensor_offsets.push_back(place(bucket, plan.tensors()));
    specs.push_back({bucket.wire_dtype, tensor_offsets.back().num_elements,
                     describe_bucket(plan, i, name_),
                     large_tensors(bucket, plan.tensors(), tensor_offsets.back())});
  }
  const auto allreduces = comm::create_buckets(*group_, segments, specs);
  tensors_.resize(plan.tensors().size());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const Bucket& bucket = plan.buckets()[i];
    auto fused = std::make_shared<FusedTensors>();
    fused->allreduce = allreduces[i];
    fused->allreduce->set_own_part([weak = std::weak_ptr(fused)] {
      const auto living = weak.lock();  // an operation may outlive its reducer
      return living ? living->names_of_missing() : std::string();
    });
    std::size_t next_place = 0;
    for (std::size_t k = 0; k < bucket.tensor_ids.size(); ++k) {
      Tensor& tensor = fused->tensors.emplace_back();
      tensor.spec = plan.tensors()[bucket.tensor_ids[k]];
      if (bucket.is_compressed()) tensor.narrow = bucket.wire_dtype;
      tensor.bucket = fused.get();
      tensor.offset = tensor_offsets[i].offsets[k] * size_of(bucket.wire_dtype);
      if (is_large(tensor.spec, bucket)) {
        if (fused->allreduce->may_be_in_place(next_place)) tensor.place = next_place;
        ++next_place;
      }
      tensors_[bucket.tensor_ids[k]] = &tensor;
    }
    observe(*fused, i, plan);
    buckets_.push_back(std::move(fused));
  }
}

void GradientReducer::observe(FusedTensors& bucket, std::size_t index, const FusionPlan& plan) {
  const Bucket& planned = plan.buckets()[index];
  const std::size_t num_bytes = planned.num_wire_bytes();
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
  refuse_forked_child();
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

GradientReducer::Tensor& GradientReducer::begin_start(std::size_t id, double scale) {
  require_usable(id);
  Tensor& tensor = *tensors_[id];
  require_scalable(tensor.spec.dtype, scale);
  group_->abort_state()->require_intact();
  enter(tensor, State::idle, State::packing, "start");
  if (phase_track_) phase_track_->begin_tensor(tensor.step);
  return tensor;
}

void GradientReducer::end_start(Tensor& tensor) {
  FusedTensors& bucket = *tensor.bucket;
  tensor.state.store(State::started);
  if (phase_track_) phase_track_->end_tensor();
  if (bucket.num_packed.fetch_add(1) + 1 < bucket.tensors.size()) return;
  if (bucket.track) bucket.track->ready(tensor.step);
  launch(bucket);
}

void GradientReducer::pack(Tensor& tensor, const void* data, double scale) {
  std::byte* target = tensor.bucket->allreduce->input(tensor.step) + tensor.offset;
  if (tensor.narrow) {
    pack_narrowed(target, data, tensor.spec.num_elements, *tensor.narrow, scale);
  } else {
    pack_scaled(target, data, tensor.spec.num_elements, tensor.spec.dtype, scale);
  }
}

void GradientReducer::start(std::size_t id, const void* data, double scale) {
  Tensor& tensor = begin_start(id, scale);
  pack(tensor, data, scale);
  end_start(tensor);
}

void GradientReducer::start_into(std::size_t id, const void* data, void* out, double scale,
                                 std::shared_ptr<void> owner) {
  require_usable(id);
  if (out == nullptr && tensors_[id]->spec.num_elements > 0) {
    throw UsageError(text("GradientReducer '", name_, "': start_into of tensor '",
                          tensors_[id]->spec.name, "' must say where the sum is to be put."));
  }
  Tensor& tensor = begin_start(id, scale);
  tensor.into = static_cast<std::byte*>(out);
  if (tensor.place) {
    tensor.bucket->allreduce->place(
        *tensor.place, {static_cast<const std::byte*>(data), tensor.into, scale, std::move(owner)});
  } else {
    tensor.owner = std::move(owner);
    pack(tensor, data, scale);
  }
  end_start(tensor);
}

bool GradientReducer::is_summed_in_place(std::size_t id) const {
  require_usable(id);
  return tensors_[id]->place.has_value();
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

void GradientReducer::wait_for_sum(Tensor& tensor, double timeout_s,
                                   const InterruptCheck& check_interrupt) {
  if (timeout_s <= 0) timeout_s = timeout_s_.load();
  const double limit_s = timeout_s > 0 ? timeout_s : group_->timeout_s();
  try {
    wait_for(*group_, *tensor.bucket->allreduce, static_cast<std::uint32_t>(tensor.step + 1),
             limit_s, check_interrupt);
  } catch (...) {
    tensor.state.store(State::started);
    throw;
  }
}

void GradientReducer::finish(std::size_t id, void* out, double timeout_s,
                             const InterruptCheck& check_interrupt) {
  require_usable(id);
  Tensor& tensor = *tensors_[id];
  enter(tensor, State::started, State::finishing, "finish");
  void* target = out != nullptr ? out : tensor.into;
  if (target == nullptr && tensor.spec.num_elements > 0) {
    tensor.state.store(State::started);
    throw UsageError(text("GradientReducer '", name_, "': finish of tensor '", tensor.spec.name,
                          "' must say where the sum is to be put, since its start did not."));
  }
  wait_for_sum(tensor, timeout_s, check_interrupt);
  if (tensor.spec.num_elements > 0) copy_out(tensor, target);
  hand_out(tensor);
}

void GradientReducer::copy_out(const Tensor& tensor, void* out) {
  const BucketOperation& allreduce = *tensor.bucket->allreduce;
  const std::byte* sum =
      tensor.is_placed() ? tensor.into : allreduce.result(tensor.step) + tensor.offset;
  if (tensor.narrow) {
    unpack_widened(out, sum, tensor.spec.num_elements, *tensor.narrow);
  } else if (out != sum) {
    std::memcpy(out, sum, num_bytes_of(tensor.spec));
  }
}

void GradientReducer::hand_out(Tensor& tensor) {
  if (tensor.is_placed()) tensor.bucket->allreduce->release(*tensor.place);
  tensor.into = nullptr;
  tensor.owner = nullptr;
  ++tensor.step;
  if (tensor.bucket->track) tensor.bucket->track->finish_tensor();
  tensor.state.store(State::idle);
}

std::unique_ptr<BorrowedView> GradientReducer::lend(std::size_t id, double timeout_s,
                                                    const InterruptCheck& check_interrupt) {
  require_usable(id);
  Tensor& tensor = *tensors_[id];
  if (num_bytes_of(tensor.spec) < kSmallestLoanBytes || tensor.narrow) return nullptr;
  enter(tensor, State::started, State::finishing, "lend");
  if (tensor.into != nullptr) {
    tensor.state.store(State::started);
    return nullptr;
  }
  wait_for_sum(tensor, timeout_s, check_interrupt);
  std::size_t slot = 0;
  const auto lender = tensor.bucket->allreduce->try_lend(tensor.step, slot);
  if (!lender) {
    tensor.state.store(State::started);
    return nullptr;
  }
  std::unique_ptr<BorrowedView> view;
  try {
    view = std::make_unique<BorrowedView>(lender, slot, tensor.offset);
  } catch (...) {  // without memory for it; the loan ends, and the sum can still be had
    lender->take_back(slot);
    tensor.state.store(State::started);
    throw;
  }
  hand_out(tensor);
  return view;
}

}  // namespace tnt::comm
