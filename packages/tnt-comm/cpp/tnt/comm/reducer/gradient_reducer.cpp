#include "tnt/comm/reducer/gradient_reducer.hpp"

#include <utility>

#include "tnt/comm/base/process.hpp"
#include "tnt/comm/communicator/group_object.hpp"
#include "tnt/comm/communicator/streams.hpp"
#include "tnt/comm/kernel/kernels.hpp"
#include "tnt/comm/reducer/fused_tensors.hpp"

namespace tnt::comm {
namespace {

// Copying less than this is cheaper than keeping account of a loan.
constexpr std::size_t kSmallestLoanBytes = 16 * 1024;

// From here on, packing costs more than treating a tensor by itself.
constexpr std::size_t kSmallestInPlaceBytes = 64 * 1024;

using State = FusedTensor::State;

void enter(FusedTensor& tensor, State from, State to, const std::string& reducer,
           const char* call) {
  State found = from;
  if (tensor.state.compare_exchange_strong(found, to)) return;
  constexpr const char* kStates[] = {"not started", "being started by another thread",
                                     "started and not finished",
                                     "being finished by another thread"};
  throw UsageError("GradientReducer '", reducer, "': ", call, " of tensor '", tensor.spec.name,
                   "', which is ", kStates[static_cast<int>(found)],
                   ". Each step is one start, then one finish, of every tensor.");
}

}  // namespace

GradientReducer::GradientReducer(std::shared_ptr<Group> group, const FusionPlan& plan,
                                 std::string name, const std::string& phase)
    : group_(std::move(group)), name_(std::move(name)) {
  create(plan, phase);
}

GradientReducer::GradientReducer(std::shared_ptr<Group> group, const FusionPlan& plan,
                                 std::string name, DeviceFinder find_device,
                                 const std::string& phase)
    : group_(std::move(group)),
      name_(std::move(name)),
      find_device_(std::move(find_device)),
      device_engine_(std::in_place) {
  create(plan, phase);
}

void GradientReducer::create(const FusionPlan& plan, const std::string& phase) {
  group_->abort_state()->require_intact();
  const char* place = device_engine_
                          ? "tensors on GPUs (`gpu` must be given on all ranks or on none)\n"
                          : "tensors in the memory of hosts\n";
  create_together(*group_, text("GradientReducer '", name_, "'"), place + describe(plan),
                  [&](SegmentSet& segments) { create_buckets(plan, segments); });
  Timeline* timeline = group_->monitor()->timeline.get();
  if (timeline != nullptr && !phase.empty()) {
    phase_track_ = std::make_unique<PhaseTrack>(*timeline, phase, name_, tensors_.size());
  }
}

GradientReducer::~GradientReducer() = default;

void GradientReducer::create_buckets(const FusionPlan& plan, SegmentSet& segments) {
  tensors_.resize(plan.tensors().size());
  std::vector<BucketSpec> specs;
  for (std::size_t i = 0; i < plan.buckets().size(); ++i) specs.push_back(lay_out(plan, i));
  DeviceBuckets made;
  if (device_engine_) {
    made = create_device_buckets(*group_, segments, specs, find_device_);
    is_on_device_ = made.device != nullptr;
    device_engine_ = made.engine;
  } else {
    made.of_host = comm::create_buckets(*group_, segments, specs);
  }
  for (std::size_t i = 0; i < specs.size(); ++i) {
    FusedTensors& bucket = *buckets_[i];
    if (is_on_device_) {
      bucket.allreduce = bucket.on_device = made.of_device[i];
    } else {
      bucket.allreduce = bucket.on_host = made.of_host[i];
    }
    connect(plan, i);
  }
}

// The plan puts tensors back to back, which decides what is fused. In memory each one begins on a
// cache line of its own: threads that pack different tensors do not disturb each other, and a
// result can be handed out in place, to libraries that want 64-byte alignment. The gaps stay zero.
BucketSpec GradientReducer::lay_out(const FusionPlan& plan, std::size_t index) {
  const Bucket& bucket = plan.buckets()[index];
  const std::size_t size = size_of(bucket.wire_dtype);
  const auto fused = std::make_shared<FusedTensors>();
  BucketSpec spec{bucket.wire_dtype, 0, describe_bucket(plan, index, name_), {}};
  for (const std::size_t id : bucket.tensor_ids) {
    FusedTensor& tensor = fused->tensors.emplace_back();
    tensor.index = spec.num_tensors++;
    tensor.spec = plan.tensors()[id];
    if (bucket.is_compressed()) tensor.narrow = bucket.wire_dtype;
    tensor.bucket = fused.get();
    tensor.offset = spec.count * size;
    if (!bucket.is_compressed() && tensor.spec.num_bytes() >= kSmallestInPlaceBytes) {
      tensor.large = spec.large.size();
      spec.large.push_back({spec.count, spec.count + tensor.spec.num_elements});
    }
    spec.count += round_up(tensor.spec.num_elements, kCacheLineBytes / size);
    tensors_[id] = &tensor;
  }
  buckets_.push_back(fused);
  return spec;
}

void GradientReducer::connect(const FusionPlan& plan, std::size_t index) {
  const std::shared_ptr<FusedTensors>& bucket = buckets_[index];
  bucket->allreduce->set_own_part([weak = std::weak_ptr(bucket)] {
    const auto living = weak.lock();  // an operation may outlive its reducer
    return living ? living->names_of_missing() : std::string();
  });
  for (FusedTensor& tensor : bucket->tensors) {
    const bool may_be_in_place =
        tensor.large && bucket->on_host && bucket->on_host->may_be_in_place(*tensor.large);
    if (!may_be_in_place) tensor.large.reset();
  }
  const std::size_t num_bytes = plan.buckets()[index].num_wire_bytes();
  if (Timeline* timeline = group_->monitor()->timeline.get()) {
    bucket->track = std::make_shared<BucketTrack>(*timeline, label_of_bucket(index, name_),
                                                  describe_bucket(plan, index, name_), num_bytes,
                                                  bucket->tensors.size());
  }
  bucket->allreduce->probe().attach(group_->monitor(), bucket->track, num_bytes);
}

const TensorSpec& GradientReducer::tensor(std::size_t id) const {
  require_usable(id);
  return tensors_[id]->spec;
}

void GradientReducer::require_usable(std::size_t id) const {
  refuse_forked_child();
  if (is_closed_.load()) throw UsageError("GradientReducer '", name_, "' is closed.");
  if (id >= tensors_.size()) {
    throw UsageError(
        "GradientReducer '", name_, "' ",
        tensors_.empty() ? "has no tensors" : text("has tensors 0 to ", tensors_.size() - 1),
        ". Received: tensor ", static_cast<std::int64_t>(id), ".");
  }
}

FusedTensor& GradientReducer::begin_start(std::size_t id, double scale) {
  require_usable(id);
  FusedTensor& tensor = *tensors_[id];
  require_scalable(tensor.spec.dtype, scale);
  group_->abort_state()->require_intact();
  enter(tensor, State::idle, State::packing, name_, "start");
  if (phase_track_) phase_track_->begin_tensor(tensor.step);
  return tensor;
}

template <typename Function>
void GradientReducer::start_by(FusedTensor& tensor, Function&& function) {
  try {
    function();
    end_start(tensor);
  } catch (...) {
    // Others wait for a bucket that this GPU cannot give any more.
    if (tensor.bucket->on_device) group_->abort_state()->fail(Error::current());
    throw;
  }
}

void GradientReducer::end_start(FusedTensor& tensor) {
  FusedTensors& bucket = *tensor.bucket;
  tensor.state.store(State::started);
  if (phase_track_) phase_track_->end_tensor();
  if (bucket.num_packed.fetch_add(1) + 1 < bucket.tensors.size()) return;
  if (bucket.track) bucket.track->ready(tensor.step);
  launch(bucket);
}

void GradientReducer::start(std::size_t id, const void* data, double scale) {
  FusedTensor& tensor = begin_start(id, scale);
  start_by(tensor, [&] { tensor.pack(data, scale); });
}

void GradientReducer::start_on_device(std::size_t id, DevicePointer data, double scale,
                                      ForeignStream stream) {
  require_on_device(id, data, "data");
  FusedTensor& tensor = begin_start(id, scale);
  start_by(tensor, [&] {
    tensor.bucket->on_device->pack(tensor.step, tensor.on_device(), data, scale, stream);
  });
}

void GradientReducer::require_on_device(std::size_t id, DevicePointer data,
                                        const char* argument) const {
  require_usable(id);
  if (!is_on_device()) {
    throw UsageError("GradientReducer '", name_,
                     "' has no GPU, so its tensors must be in the memory of the host.");
  }
  if (data == 0 && tensors_[id]->spec.num_elements > 0) {
    throw UsageError("GradientReducer '", name_, "': `", argument, "` of tensor '",
                     tensors_[id]->spec.name, "' must be an address on the GPU, and not null.");
  }
}

void GradientReducer::start_into(std::size_t id, const void* data, void* out, double scale,
                                 std::shared_ptr<void> owner) {
  require_usable(id);
  if (out == nullptr && tensors_[id]->spec.num_elements > 0) {
    throw UsageError("GradientReducer '", name_, "': start_into of tensor '",
                     tensors_[id]->spec.name, "' must say where to put the sum.");
  }
  FusedTensor& tensor = begin_start(id, scale);
  tensor.into = static_cast<std::byte*>(out);
  start_by(tensor, [&] {
    if (tensor.large) {
      tensor.bucket->on_host->sum_in_place(*tensor.large, {static_cast<const std::byte*>(data),
                                                           tensor.into, scale, std::move(owner)});
    } else {
      tensor.owner = std::move(owner);
      tensor.pack(data, scale);
    }
  });
}

bool GradientReducer::is_summed_in_place(std::size_t id) const {
  require_usable(id);
  return tensors_[id]->large.has_value();
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

template <typename Function>
void GradientReducer::finish_by(FusedTensor& tensor, const char* call, Function&& function) {
  enter(tensor, State::started, State::finishing, name_, call);
  bool is_finished = false;
  try {
    is_finished = function();
  } catch (...) {
    tensor.state.store(State::started);
    throw;
  }
  if (is_finished) {
    hand_out(tensor);
  } else {
    tensor.state.store(State::started);
  }
}

double GradientReducer::timeout_of(double timeout_s) const {
  if (timeout_s <= 0) timeout_s = timeout_s_.load();
  return timeout_s > 0 ? timeout_s : group_->timeout_s();
}

void GradientReducer::wait_for_sum(const FusedTensor& tensor, double timeout_s,
                                   const InterruptCheck& check_interrupt) {
  wait_for(*group_, *tensor.bucket->allreduce, static_cast<std::uint32_t>(tensor.step + 1),
           timeout_of(timeout_s), check_interrupt);
}

void GradientReducer::finish_on_device(std::size_t id, DevicePointer out, ForeignStream stream,
                                       double timeout_s, const InterruptCheck& check_interrupt) {
  require_on_device(id, out, "out");
  FusedTensor& tensor = *tensors_[id];
  finish_by(tensor, "finish", [&] {
    wait_for_sum(tensor, timeout_s, check_interrupt);
    tensor.bucket->on_device->hand_out(tensor.step, tensor.on_device(), out, stream);
    return true;
  });
}

void GradientReducer::finish(std::size_t id, void* out, double timeout_s,
                             const InterruptCheck& check_interrupt) {
  require_usable(id);
  FusedTensor& tensor = *tensors_[id];
  finish_by(tensor, "finish", [&] {
    void* target = out != nullptr ? out : tensor.into;
    if (target == nullptr && tensor.spec.num_elements > 0) {
      throw UsageError("GradientReducer '", name_, "': finish of tensor '", tensor.spec.name,
                       "' must say where to put the sum, since its start did not.");
    }
    wait_for_sum(tensor, timeout_s, check_interrupt);
    if (tensor.spec.num_elements > 0) tensor.copy_out(target, Deadline(timeout_of(timeout_s)));
    return true;
  });
}

void GradientReducer::hand_out(FusedTensor& tensor) {
  if (tensor.is_in_place()) tensor.bucket->on_host->release(*tensor.large);
  tensor.into = nullptr;
  tensor.owner = nullptr;
  ++tensor.step;
  if (tensor.bucket->track) tensor.bucket->track->finish_tensor();
  tensor.state.store(State::idle);
}

BorrowedView GradientReducer::lend(std::size_t id, double timeout_s,
                                   const InterruptCheck& check_interrupt) {
  require_usable(id);
  FusedTensor& tensor = *tensors_[id];
  // To GPUs, copies from memory that their driver does not know are slow.
  if (device_engine_) return nullptr;
  if (tensor.spec.num_bytes() < kSmallestLoanBytes || tensor.narrow) return nullptr;
  BorrowedView view;
  finish_by(tensor, "lend", [&] {
    if (tensor.into != nullptr) return false;
    wait_for_sum(tensor, timeout_s, check_interrupt);
    std::size_t slot = 0;
    const auto lender = tensor.bucket->on_host->try_lend(tensor.step, slot);
    if (!lender) return false;
    // Without memory for the view, reset() ends the loan, and the sum can still be had.
    view.reset(lender->data_of(slot) + tensor.offset, [lender, slot](std::byte*) {
      if (!is_forked_child()) lender->take_back(slot);
    });
    return true;
  });
  return view;
}

}  // namespace tnt::comm
