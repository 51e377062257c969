#include "tnt/comm/algorithm/descriptor.hpp"

#include "tnt/comm/base/text.hpp"

namespace tnt::comm {

std::string_view name_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::barrier:
      return "barrier";
    case CollectiveKind::allreduce:
      return "allreduce";
    case CollectiveKind::broadcast:
      return "broadcast";
    case CollectiveKind::allgather:
      return "allgather";
    case CollectiveKind::reduce_scatter:
      return "reduce_scatter";
    case CollectiveKind::creation:
      return "creation";
  }
  return "unknown";
}

bool Descriptor::matches(const Descriptor& other) const {
  const bool counts_may_differ =
      kind == CollectiveKind::allgather || kind == CollectiveKind::creation;
  return call_index == other.call_index && kind == other.kind && dtype == other.dtype &&
         op == other.op && root == other.root && shape == other.shape &&
         (counts_may_differ || count == other.count);
}

std::string Descriptor::describe() const {
  const std::string_view name = name_of(kind);
  switch (kind) {
    case CollectiveKind::barrier:
      return "barrier()";
    case CollectiveKind::creation:
      return "creation of a group, GradientReducer or Gatherer";
    case CollectiveKind::allreduce:
    case CollectiveKind::reduce_scatter:
      return text(name, "(", comm::name_of(dtype), ", ", count, " elements, ", comm::name_of(op),
                  ")");
    case CollectiveKind::broadcast:
      return text(name, "(", comm::name_of(dtype), ", ", count, " elements, root ", root, ")");
    case CollectiveKind::allgather:
      return text(name, "(", comm::name_of(dtype), ", ", count, " elements, row shape id ",
                  shape & 0xffffU, ")");
  }
  return std::string(name);
}

}  // namespace tnt::comm
