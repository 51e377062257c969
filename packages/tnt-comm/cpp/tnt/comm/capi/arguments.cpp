#include "tnt/comm/capi/arguments.hpp"

#include "tnt/comm/communicator/gatherer.hpp"
#include "tnt/comm/communicator/group.hpp"
#include "tnt/comm/reducer/gradient_reducer.hpp"

namespace tnt::comm {

static_assert(static_cast<int>(DType::boolean) == TNT_COMM_BOOL &&
              static_cast<int>(DType::float32) == TNT_COMM_FLOAT32 &&
              kNumDTypes == TNT_COMM_BOOL + 1);
static_assert(static_cast<int>(ReduceOp::sum) == TNT_COMM_SUM &&
              static_cast<int>(ReduceOp::lor) == TNT_COMM_OR && kNumReduceOps == TNT_COMM_OR + 1);
static_assert(static_cast<int>(CollectiveKind::allreduce) == TNT_COMM_ALLREDUCE &&
              static_cast<int>(CollectiveKind::broadcast) == TNT_COMM_BROADCAST &&
              static_cast<int>(CollectiveKind::allgather) == TNT_COMM_ALLGATHER &&
              static_cast<int>(CollectiveKind::reduce_scatter) == TNT_COMM_REDUCE_SCATTER &&
              static_cast<int>(CollectiveKind::alltoall) == TNT_COMM_ALLTOALL &&
              static_cast<int>(CollectiveKind::gather) == TNT_COMM_GATHER &&
              static_cast<int>(CollectiveKind::scatter) == TNT_COMM_SCATTER &&
              kNumCallableKinds == TNT_COMM_SCATTER + 1);

namespace {

// Numbers from C may be any.
template <typename Enum>
Enum checked(std::int64_t number, std::size_t count, const char* argument, const char* kind) {
  if (number >= 0 && number < static_cast<std::int64_t>(count)) return static_cast<Enum>(number);
  throw UsageError(
      text("`", argument, "` must be a ", kind, " (", count - 1, "). Received: ", number, "."));
}

}  // namespace

DType checked_dtype(tnt_comm_dtype dtype, const char* argument) {
  return checked<DType>(dtype, kNumDTypes, argument,
                        "tnt_comm_dtype, TNT_COMM_FLOAT16 (0) to TNT_COMM_BOOL");
}

ReduceOp checked_op(tnt_comm_op op) {
  return checked<ReduceOp>(op, kNumReduceOps, "op", "tnt_comm_op, TNT_COMM_SUM (0) to TNT_COMM_OR");
}

CollectiveKind checked_kind(tnt_comm_kind kind) {
  return checked<CollectiveKind>(kind, kNumCallableKinds, "kind",
                                 "tnt_comm_kind, TNT_COMM_BARRIER (0) to TNT_COMM_SCATTER");
}

double checked_timeout(double timeout_s) {
  if (timeout_s >= 0) return timeout_s;
  throw UsageError(text("`timeout_s` must be a number of seconds, or 0 for the job's timeout. ",
                        "Received: timeout_s=", timeout_s, "."));
}

void require_pointer(const void* pointer, const char* argument) {
  if (pointer == nullptr) throw UsageError(text("`", argument, "` must not be NULL."));
}

std::size_t checked_bytes(const void* array, std::uint64_t count, DType dtype,
                          const char* argument) {
  const std::size_t num_bytes = bytes_in_memory(count, size_of(dtype), text("`", argument, "`"));
  if (num_bytes > 0) require_pointer(array, argument);
  return num_bytes;
}

void require_apart(const void* in, std::size_t in_bytes, const void* out, std::size_t out_bytes) {
  const auto in_begin = reinterpret_cast<std::uintptr_t>(in);
  const auto out_begin = reinterpret_cast<std::uintptr_t>(out);
  if (in_bytes == 0 || out_bytes == 0) return;
  if (in_begin >= out_begin + out_bytes || out_begin >= in_begin + in_bytes) return;
  throw UsageError("`out` must not overlap `in`; give it memory of its own.");
}

std::shared_ptr<Group> group_of(std::int64_t handle) {
  return handle == TNT_GROUP_WORLD ? Group::world() : groups().find(handle);
}

// Never destroyed: other threads may be inside a call when the process ends.

Registry<GradientReducer>& reducers() {
  static auto* registry = new Registry<GradientReducer>("GradientReducer");
  return *registry;
}

Registry<Gatherer>& gatherers() {
  static auto* registry = new Registry<Gatherer>("Gatherer");
  return *registry;
}

Registry<Group>& groups() {
  static auto* registry = new Registry<Group>("group");
  return *registry;
}

}  // namespace tnt::comm
