#include "tnt/comm/capi/registry.hpp"

#include "tnt/comm/communicator/gatherer.hpp"
#include "tnt/comm/communicator/group.hpp"
#include "tnt/comm/reducer/gradient_reducer.hpp"

namespace tnt::comm {

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
