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

Registry<GradientReducer>& reducers() {
  return registry_of<GradientReducer>("GradientReducer");
}
Registry<Gatherer>& gatherers() {
  return registry_of<Gatherer>("Gatherer");
}
Registry<Group>& groups() {
  return registry_of<Group>("group");
}

}  // namespace tnt::comm
